"""The storm: processes on one database, two of them killed with SIGKILL every second and started again at once, and
beside that, processes that kill themselves at a named crash point, until every point was hit. Then quiet, and every
card, effect, claim and timer is checked from the outside."""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.testing.checker import problems
from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery, Started
from hermes.testing.trial import Trial

FUNCTIONS = Path(__file__).parent / "functions" / "crash_work.py"
POINTS = ("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A14", "A15", "A16")
"""A13 (an event stored, its run not yet woken) comes with events."""
FAULTS: dict[str, Any] = {
    "conflict": 0.05,
    "rate_limited": {"rate": 0.01, "value": 2},
    "overloaded": {"rate": 0.01, "value": 1},
    "unavailable_after": 0.05,
    "ghost": {"rate": 0.02, "value": 2},
    "query_lag": {"rate": 0.2, "value": 2},
}
"""By rate, on every call of Hermes: docs/faults.md."""


def say(text: str = "") -> None:
    print(text, flush=True)


@dataclass
class Storm:
    trial: Trial
    random: random.Random
    size: int
    folder: Path
    running: list[tuple[Started, Path, str | None]] = field(default_factory=list)
    at_points: Counter[str] = field(default_factory=Counter)
    """Deaths exactly at a point."""
    after_points: Counter[str] = field(default_factory=Counter)
    """Random kills, by the last point that the process had reached."""
    started: int = 0
    self_killed: int = 0
    random_kills: int = 0

    def start_one(self, *, armed: bool = True, point: str | None = None) -> None:
        """`point`: at its first hit; else most processes are given one, and some none."""
        self.started += 1
        log = self.folder / f"points-{self.started:04d}.log"
        hit = 1
        if armed and point is None and self.random.random() < 0.75:
            point, hit = self._point(), self.random.choice((1, 1, 2, 3))
        crash = f"{point}:{hit}" if point else ""
        self.running.append((self.trial.up(crash=crash, log=log), log, point))

    def _point(self) -> str:
        """One of those with the fewest deaths, so that each gets some."""
        waiting = Counter(point for _, _, point in self.running if point)
        fewest = min(self.at_points[point] + waiting[point] for point in POINTS)
        return self.random.choice([p for p in POINTS if self.at_points[p] + waiting[p] == fewest])

    def notice_deaths(self, *, armed: bool = True) -> None:
        """Count those that have killed themselves, and start others in their place."""
        for item in [item for item in self.running if not item[0].alive]:
            process, log, point = item
            self.running.remove(item)
            if process.status != -signal.SIGKILL or point is None or _last(log) != point:
                raise RuntimeError(f"{process.name} ended by itself with {process.status}: see {process.output}")
            self.at_points[point] += 1
            self.self_killed += 1
            self.start_one(armed=armed)

    def kill_two(self) -> None:
        for item in self.random.sample(self.running, min(2, len(self.running))):
            process, log, _ = item
            if not process.kill():
                continue  # has just killed itself: `notice_deaths` counts it
            process.wait()
            self.running.remove(item)
            last = _last(log)
            self.random_kills += 1
            self.after_points[last or "before any"] += 1
            self.start_one()

    def rage(self, seconds: float) -> float:
        began = time.monotonic()
        next_kill = began + 1.0
        while time.monotonic() < began + seconds:
            time.sleep(0.02)
            self.notice_deaths()
            if time.monotonic() >= next_kill:
                next_kill += 1.0
                self.kill_two()
        return time.monotonic() - began

    def aim(self, seconds: float) -> float:
        """Points that nobody has died at yet: every process is armed with one of them, until none is left."""
        began = time.monotonic()
        while (missing := self.missing()) and time.monotonic() < began + seconds:
            for item in [item for item in self.running if item[0].alive and item[2] not in missing]:
                item[0].kill()
                item[0].wait()
                self.running.remove(item)
                self.start_one(point=self.random.choice(missing))
            time.sleep(0.02)
            self.notice_deaths()
        return time.monotonic() - began

    def missing(self) -> list[str]:
        return [point for point in POINTS if not self.at_points[point]]


def _last(log: Path) -> str | None:
    lines = log.read_text().split() if log.exists() else []
    return lines[-1] if lines else None


def storm(folder: Path, nursery: Nursery, options: argparse.Namespace, postgres: PostgresServer | None) -> list[str]:
    database, plan = (
        "PostgreSQL" if postgres else "SQLite",
        {"seed": options.seed, **FAULTS} if options.faults else None,
    )
    say(
        f"\nStorm on {database}: {options.processes} processes, {options.cards} cards, {options.seconds:g} s, "
        f"seed {options.seed}{', faults of the board on' if plan else ''}"
    )
    home = folder / f"storm-{database.lower()}"
    trial = Trial(
        home,
        nursery,
        FUNCTIONS,
        "five_effects",
        claim={"max_concurrent": options.concurrent, "max_open": 2 * options.concurrent},
        times={"hint_age": 10},  # a process lives for two seconds: it must find what another has asked for
        args={"sleep_seconds": 1.0},
        postgres=postgres,
    ).open()
    if plan:
        trial.fault(plan=plan)
    points = home / "points"
    points.mkdir()
    raging = Storm(trial, random.Random(options.seed), options.processes, points)
    try:
        cards = trial.add_cards(*(f"card {number}" for number in range(options.cards)))
        for _ in range(options.processes):
            raging.start_one()
        took = raging.rage(options.seconds)
        at_end = Counter(card["Status"] for card in trial.cards().values())
        say(f"  after {took:.0f} s: {dict(at_end)}; nobody has died yet at: {' '.join(raging.missing()) or '-'}")
        if raging.missing():
            say(f"  aimed at those for {raging.aim(options.seconds):.0f} s more")
        quiet_from = time.monotonic()
        _calm(raging)
        try:
            trial.wait_quiet(cards, options.patience)
            say(f"  quiet {time.monotonic() - quiet_from:.0f} s after the last kill")
        except AssertionError as error:
            say(f"  NOT QUIET: {error}")
        found = problems(trial, cards, effects=5)
        for process, _, _ in raging.running:
            process.send(signal.SIGTERM)
        for process, _, _ in raging.running:
            if process.wait(60) != 0:
                found.append(f"{process.name} ended with {process.status} after SIGTERM: {process.output}")
        _report(raging, trial, cards)
        found += [f"no process died at {point}" for point in raging.missing()]
        return found
    finally:
        trial.close()


def _calm(raging: Storm) -> None:
    """No more kills: processes that are armed give way to others, so that nobody dies any more."""
    for item in [item for item in raging.running if item[2] is not None]:
        item[0].kill()
        item[0].wait()
        raging.running.remove(item)
        raging.start_one(armed=False)


def _report(raging: Storm, trial: Trial, cards: list[str]) -> None:
    say(
        f"  processes started {raging.started}, killed at random {raging.random_kills}, at a point {raging.self_killed}"
    )
    say("  kills by crash point        " + "".join(f"{point:>5}" for point in POINTS))
    say("    exactly there             " + "".join(f"{raging.at_points[point]:5}" for point in POINTS))
    say("    at random, after it       " + "".join(f"{raging.after_points[point]:5}" for point in POINTS))
    say(f"    at random, before any     {raging.after_points['before any']:5}")
    log = trial.log()
    keys = {entry.key for entry in log}
    repeats = sum(1 for entry in log if not entry.changed)
    say(f"  effects: {len(keys)} keys, {sum(e.changed for e in log)} changes, {repeats} repeats that changed nothing")
    runs = trial.rows("SELECT count(*) n, sum(take_overs) t, max(take_overs) m FROM runs")[0]
    say(f"  runs {runs['n']}, take-overs {runs['t']}, most in one run {runs['m']}")
    met = trial.ledger().get("faults")
    if met:
        say(f"  faults met by calls: {', '.join(f'{name} {count}' for name, count in sorted(met.items()))}")
    shown = Counter(card["Status"] for card in trial.cards().values())
    say(f"  cards: {dict(shown)} of {len(cards)}")
