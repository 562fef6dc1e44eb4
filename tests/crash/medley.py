"""The medley: durable functions of every shape (delays, events, races, fan-out, compensation, children, endless ones)
under random kills, on either database. What each must do outside is known beforehand; the recorder knows what was done.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siege import Siege, _ran_again
from storm import say

from hermes.clock import SystemClock
from hermes.errors import StoreUnavailable
from hermes.model.event import NewEvent
from hermes.model.key import user_key
from hermes.model.run import NewRun, RunKind
from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery
from hermes.testing.trial import Trial, eventually
from store.database import Database

FUNCTIONS = Path(__file__).parent / "functions" / "medley.py"

EXPECTED: dict[str, list[str]] = {
    "sleeps": ["0", "1", "2", "end"],
    "waits": ["0", "1", "2", "parcel 0", "parcel 1", "parcel 2"],
    "races": ["parcel 0"],  # and perhaps "late"
    "fans_out": ["0", "1", "2", "3", "4", "5", "end"],
    "compensates": ["flight", "hotel", "no hotel", "no flight"],
    "has_children": [*(f"child {n}{end}" for n in range(3) for end in ("", " end")), "children 3"],
    "goes_on": [f"round {n}" for n in range(4)],
    "asks": ["before", "answered", "after"],
}
FIRED = {"waits": 3, "races": 1}
"""Events that a run of this shape gets from outside."""
IN_ORDER = ("sleeps", "compensates", "goes_on", "asks")
"""Their effects happen in the order of EXPECTED."""


@dataclass
class Medley(Siege):
    database: Database | None = None
    names: dict[str, str] = field(default_factory=dict)
    """Shape by name."""
    unfired: list[tuple[str, int]] = field(default_factory=list)
    fired_again: int = 0
    chance: random.Random = field(default_factory=random.Random)
    """Of the feeder. It has a thread of its own: a process that is suspended while it writes holds up all writers."""
    over: threading.Event = field(default_factory=threading.Event)

    def commit(self, change: Callable[[Any], Any]) -> Any:
        """As somebody outside would: until it is there."""
        assert self.database is not None
        while True:
            try:
                return self.database.commit(change)
            except StoreUnavailable:
                time.sleep(0.1)

    def feed_on(self) -> None:
        while not self.over.wait(0.3):
            for _ in range(8 * (1 + (40 - _open(self)) // 8)):
                self.put()
            self.fire_some(self.chance.randint(0, 8))
        while self.unfired:
            self.fire_some(50)

    def resume_suspects(self) -> int:
        """What a person does about runs whose workers died five times in a row, here for no fault of theirs."""
        parked = self.trial.rows("SELECT id FROM runs WHERE state = 'parked' AND reason LIKE ?", "poison crash%")
        for row in parked:
            self.commit(lambda unit, row=row: unit.runs.resume(row["id"], by="medley"))
        if parked:
            say(f"  {len(parked)} run(s) whose workers died five times in a row were parked, and are resumed by hand")
        return len(parked)

    def put(self) -> None:
        shape = self.chance.choice(tuple(EXPECTED))
        name = f"{shape} {len(self.names)}"
        new = NewRun(
            key=user_key("default", name),
            kind=RunKind.function,
            function=f"medley.{shape}",
            args={"recorder": f"http://127.0.0.1:{self.trial.recorder_port}", "name": name},
        )
        self.commit(lambda unit: unit.runs.enqueue(new))
        self.names[name] = shape
        self.unfired += [(name, number) for number in range(FIRED.get(shape, 0))]

    def fire_some(self, most: int) -> None:
        """In the order of their numbers for each name; sometimes twice under one id, as senders do."""
        for _ in range(min(most, len(self.unfired))):
            name = self.chance.choice([name for name, _ in self.unfired])
            pair = next(entry for entry in self.unfired if entry[0] == name)
            self.unfired.remove(pair)
            event = NewEvent(
                "MEDLEY_ARRIVED", name, json.dumps({"number": pair[1]}), event_id=f"{pair[1]}", fired_by="medley"
            )
            for _ in range(self.chance.choice((1, 1, 2))):
                fired = self.commit(lambda unit, event=event: unit.events.fire(event, max_kept=100))
                self.fired_again += fired.duplicate


def medley(folder: Path, nursery: Nursery, options: argparse.Namespace, postgres: PostgresServer | None) -> list[str]:
    database, wanted = "PostgreSQL" if postgres else "SQLite", options.kills
    say(f"\nMedley on {database}: {options.processes} processes of four slots, {wanted} kills, seed {options.seed}")
    trial = Trial(
        folder / f"medley-{database.lower()}",
        nursery,
        FUNCTIONS,
        "card",
        workers={"slots": 4, "lease": "5s"},
        postgres=postgres,
    ).open()
    under = Medley(trial, random.Random(options.seed), options.processes, postgres)
    under.database = Database(trial.url, SystemClock())
    under.roles = ("worker",)
    under.chance = random.Random(options.seed + 1)
    feeder = threading.Thread(target=under.feed_on, name="feeder", daemon=True)
    feeder.start()
    try:
        under.strike_until(wanted, lambda: None, lambda: f"{len(under.names)} runs")
        under.over.set()
        feeder.join(60)
        quiet_from = time.monotonic()
        try:
            eventually("every run is over", lambda: _open(under) == 0, options.patience, every=0.2)
            say(f"  quiet {time.monotonic() - quiet_from:.0f} s after the last kill")
            if under.resume_suspects():
                eventually("what was resumed is over", lambda: _open(under) == 0, options.patience, every=0.2)
        except AssertionError as error:
            say(f"  NOT QUIET: {error}")
        return _problems(under) + under.end_all()
    finally:
        under.over.set()
        under.wake(all_of_them=True)
        feeder.join(60)
        under.database.close()
        trial.close()


def _open(under: Medley) -> int:
    try:
        found = under.trial.rows("SELECT count(*) AS n FROM runs WHERE state IN ('ready', 'running', 'waiting')")
    except Exception:  # the server is being restarted
        if under.postgres is None:
            raise
        return 1000
    return int(found[0]["n"])


def _problems(under: Medley) -> list[str]:
    trial, log = under.trial, under.trial.log()
    found: list[str] = []
    runs = {row["key"]: row for row in trial.rows("SELECT * FROM runs")}
    made: dict[str, list[str]] = {}
    for entry in log:
        if entry.changed:
            made.setdefault(entry.body["card"], []).append(entry.body["place"])
    lost = 0
    late = 0
    for name, shape in under.names.items():
        run = runs.get(user_key("default", name))
        if run is None or run["state"] not in ("succeeded", "failed", "parked", "refused", "cancelled"):
            lost += 1
            found.append(f"{name}: {'no run' if run is None else run['state']} ({run and run['reason']})")
            continue
        if run["state"] != "succeeded":
            found.append(f"{name}: {run['state']} ({run['reason'] or run['error_message']})")
            continue
        places = made.get(name, [])
        if shape == "races" and "late" in places:
            late += 1
            places = [place for place in places if place != "late"] if places.count("late") == 1 else places
        if Counter(places) != Counter(EXPECTED[shape]):
            found.append(f"{name}: its effects were {places}")
        elif shape in IN_ORDER and places != EXPECTED[shape]:
            found.append(f"{name}: its effects came in the order {places}")
    strangers = set(made) - set(under.names)
    found += [f"{name}: effects of nobody" for name in sorted(strangers)]
    again = _ran_again(under, log)
    found += again
    waits = trial.rows("SELECT * FROM waits")
    kept = trial.rows("SELECT * FROM events WHERE delivered_at IS NULL")
    found += [f"run {row['run_id']} is over, and a wait of it is open" for row in waits]
    found += [f"event {row['name']} for {row['instance_id']} was never taken" for row in kept]
    repeats = sum(1 for entry in log if not entry.changed)
    events = trial.rows("SELECT count(*) AS n FROM events")[0]["n"]
    counts = ", ".join(f"{n} {shape}" for shape, n in sorted(Counter(under.names.values()).items()))
    say(
        f"  kills {under.kills}, suspensions {under.suspensions}, database restarts {under.restarts} "
        f"(processes that had to be started again: {under.turned_away})"
    )
    say(f"  runs {len(under.names)} and their children: {counts}")
    say(f"  events {events}, fired again under their id {under.fired_again}; races that time won {late}")
    twice = sum(1 for places in made.values() for count in Counter(places).values() if count > 1)
    say(
        f"  lost {lost}; recorded steps run again {len(again)}; effects made {sum(map(len, made.values()))}, of them "
        f"twice {twice}; repeats that changed nothing {repeats}"
    )
    taken = trial.rows("SELECT sum(take_overs) t, max(take_overs) m FROM runs")[0]
    say(f"  take-overs {taken['t']}, most in one run {taken['m']}")
    return found
