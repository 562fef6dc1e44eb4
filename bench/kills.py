"""A worker is killed (kill -9) again and again over 300 jobs, and started anew each time; then it is left in peace.
What is done, undone and done twice says the outside's record. And how long the jobs of a killed worker stand still."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from bench.contender import STEPS, Contender, Trial, end
from bench.databases import Databases
from bench.table import Table

PAUSE = 0.02
"""Seconds a step takes, so that a kill meets some of them."""


@dataclass(frozen=True)
class Survived:
    done: int
    undone: int
    stuck: int
    """Of those undone, begun and left in the middle."""
    repeated_at_death: int
    """Steps that were made again because their worker died before the result was recorded: nothing but at least once is
    possible. Hermes and DBOS send the same key again."""
    done_twice: int
    """Steps made again although a later step of their job had been made: the record had forgotten."""
    seconds: float


def five_kills(
    contender: Contender, databases: Databases, *, jobs: int, slots: int, kills: int, patience: float
) -> Survived:
    trial = Trial(contender, databases.fresh(contender.database), databases.folder, jobs=jobs, slots=slots, pause=PAUSE)
    trial.enqueue()
    began = time.monotonic()
    process = trial.start()
    for kill in range(1, kills + 1):
        trial.wait_for(jobs * STEPS * kill // (kills + 1), patience)
        process.kill()
        process.wait()
        process = trial.start()
    whole(trial, patience)
    end(process)
    return judge(trial, time.monotonic() - began)


def whole(trial: Trial, patience: float) -> bool:
    """Until every step of every job has been seen, or nothing has come for `patience` seconds."""
    known, since = -1, time.monotonic()
    while True:
        lines = trial.seen()
        if len({(line.job, line.place) for line in lines}) == trial.jobs * STEPS:
            time.sleep(1)
            return True
        if len(lines) != known:
            known, since = len(lines), time.monotonic()
        elif time.monotonic() - since > patience:
            return False
        time.sleep(0.1)


def judge(trial: Trial, seconds: float) -> Survived:
    places: dict[int, list[int]] = defaultdict(list)
    for line in trial.seen():
        places[line.job].append(line.place)
    done = sum(set(made) == {1, 2, 3} for made in places.values())
    at_death = twice = 0
    for made in places.values():
        furthest = 0
        seen: set[int] = set()
        for place in made:
            if place in seen:
                at_death += place == furthest
                twice += place < furthest
            seen.add(place)
            furthest = max(furthest, place)
    return Survived(done, trial.jobs - done, len(places) - done, at_death, twice, seconds)


@dataclass(frozen=True)
class Resumed:
    interrupted: int
    """Jobs that had begun and were not done when the worker was killed."""
    came_back: int
    first: float | None
    """Seconds from the kill to the first new step of an interrupted job: the new process's start is part of it."""
    last: float | None


def recovery(
    contender: Contender, databases: Databases, *, jobs: int, slots: int, patience: float, timeout: float = 0.0
) -> Resumed:
    url = databases.fresh(contender.database)
    trial = Trial(contender, url, databases.folder, jobs=jobs, slots=slots, pause=0.2, timeout=timeout)
    trial.enqueue()
    process = trial.start()
    trial.wait_for(jobs * STEPS // 3, patience)
    process.kill()
    process.wait()
    killed = time.monotonic()
    made: dict[int, set[int]] = defaultdict(set)
    for line in trial.seen():
        made[line.job].add(line.place)
    interrupted = {job for job, places in made.items() if len(places) < STEPS}
    process = trial.start()
    whole(trial, patience)
    end(process)
    resumed: dict[int, float] = {}
    for line in trial.seen():
        if line.at > killed and line.job in interrupted:
            resumed.setdefault(line.job, line.at - killed)
    times = sorted(resumed.values())
    return Resumed(len(interrupted), len(times), times[0] if times else None, times[-1] if times else None)


def measure(
    contenders: list[Contender], databases: Databases, *, jobs: int, slots: int, kills: int, patience: float
) -> tuple[list[Table], list[dict[str, Any]]]:
    raw: list[dict[str, Any]] = []
    survived = Table(
        f"{jobs} jobs of three steps, their worker killed {kills} times (kill -9) and started again at once",
        ["contender", "done", "undone", "left in the middle", "repeated at a death", "done twice", "seconds"],
    )
    back = Table(
        "A worker is killed in the middle and started again at once: when do its jobs go on",
        ["contender", "interrupted", "came back", "first after", "last after"],
    )
    for contender in contenders:
        found = five_kills(contender, databases, jobs=jobs, slots=slots, kills=kills, patience=patience)
        numbers = (found.done, found.undone, found.stuck, found.repeated_at_death, found.done_twice)
        survived.add(contender.key, *map(str, numbers), f"{found.seconds:.0f}")
        resumed = recovery(contender, databases, jobs=60, slots=slots, patience=patience)
        first, last = (f"{at:.1f} s" if at is not None else "never" for at in (resumed.first, resumed.last))
        back.add(contender.key, str(resumed.interrupted), str(resumed.came_back), first, last)
        raw.append({"contender": contender.key, "kills": asdict(found), "recovery": asdict(resumed)})
        print(f"  {contender.key:36} {found} {resumed}")
    return [survived, back], raw
