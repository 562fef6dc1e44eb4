"""Events that are fired at the very moment at which somebody begins to wait for them, and one event fired by many at
once: `python -m bench.events`, a part of `make bench`, and a few hundred in tests/hermes/durable/test_event_storm.py.

Each run tells the firers that it is about to wait; threads of its own process and other processes then race it to the
database. What must not be, at any moment that a reader can see, is a wait beside a kept event which it could take.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import and_, func, or_, select

from bench.databases import Databases
from bench.table import Table
from hermes.clock import SystemClock
from hermes.durable import Event, delay, function, wait_for_event, when_any
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.model.event import Fired, NewEvent
from hermes.model.run import NewRun, RunKind
from store.database import Database
from store.migrate import upgrade
from store.tables.events import EVENTS, WAITS
from store.tables.runs import RUNS

NEWS = Event("BENCH_NEWS", int)
HOUR = timedelta(hours=1)
JITTER = 0.004
"""Seconds at most that a firer holds back, so that now the wait comes first and now the event."""
PROCESSES = 2
THREADS = 8
PATIENCE = 120.0
"""Seconds in which at least one more run must be over."""


@dataclass(frozen=True)
class Races:
    runs: int
    right: int
    """Ended with the payload of the event that was theirs."""
    event_first: int
    wait_first: int
    missed: int
    """Most waits that were ever seen beside a kept event they could have taken."""
    looks: int
    left_waiting: int
    left_kept: int
    seconds: float


@dataclass(frozen=True)
class Fires:
    fired: int
    events: int
    told_new: int
    """Answers which said that the event was new."""
    seconds: float


class Firers:
    """Threads of this process, and processes of their own."""

    def __init__(self, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.database = opened(url)
        self._processes = ProcessPoolExecutor(PROCESSES, context, _open_here, (url,))
        self._threads = ThreadPoolExecutor(THREADS)
        executors: list[Executor] = [self._processes] * PROCESSES
        for there in [executor.submit(time.sleep, 0.2) for executor in executors]:
            there.result()

    def fire(self, number: int, new: NewEvent, jitter: float = 0.0) -> Future[Fired]:
        if number % 3 == 0:
            return self._processes.submit(_fire_here, new, jitter)
        return self._threads.submit(fire, self.database, new, jitter)

    def close(self) -> None:
        self._processes.shutdown()
        self._threads.shutdown()
        self.database.close()


def opened(url: str) -> Database:
    return Database(url, SystemClock(), connections=THREADS + 4)


def fire(database: Database, new: NewEvent, jitter: float) -> Fired:
    if jitter:
        time.sleep(random.uniform(0, jitter))
    return database.commit(lambda unit: unit.events.fire(new, max_kept=1_000_000))


def _open_here(url: str) -> None:
    global _here
    _here = opened(url)


def _fire_here(new: NewEvent, jitter: float) -> Fired:
    assert _here is not None
    return fire(_here, new, jitter)


_here: Database | None = None
_about_to_wait: Any = None


@function(name="bench.news")
async def news(number: int) -> int:
    _about_to_wait(number)
    return await wait_for_event(NEWS, str(number), timeout=HOUR)


@function(name="bench.news_or_late")
async def news_or_late(number: int) -> int:
    _about_to_wait(number)
    first, deadline = wait_for_event(NEWS, str(number), timeout=HOUR), delay(HOUR)
    return -1 if await when_any(first, deadline) is deadline else await first


def race(firers: Firers, count: int, slots: int = 8) -> Races:
    """On a database that has its tables. Every other run waits in a race with a deadline."""
    global _about_to_wait
    fired: dict[int, Future[Fired]] = {}
    database = firers.database

    def about_to_wait(number: int) -> None:
        if number not in fired:  # else it is driven again, with the event
            fired[number] = firers.fire(number, NewEvent(NEWS.name, str(number), json.dumps(number)), JITTER)

    _about_to_wait = about_to_wait
    for first in range(0, count, 500):
        with database.write() as unit:
            for number in range(first, min(first + 500, count)):
                called = (news, news_or_late)[number % 2].name
                unit.runs.enqueue(NewRun(f"race-{number}", RunKind.function, called, {"number": number}))
    worker = Worker(database, SystemClock(), EngineSettings(slots=slots))
    began = time.monotonic()
    with looking(database) as seen:
        worker.start()
        try:
            until_over(database, count)
        finally:
            worker.stop()
    seconds = time.monotonic() - began
    told = [future.result(30) for future in fired.values()]
    with database.read() as unit:
        ended = unit.connection.execute(
            select(RUNS.c.key, RUNS.c.result).where(RUNS.c.state == "succeeded", RUNS.c.key.like("race-%"))
        ).all()
        waits = unit.connection.execute(select(func.count()).select_from(WAITS)).scalar_one()
        kept = unit.connection.execute(
            select(func.count()).select_from(EVENTS).where(EVENTS.c.delivered_at.is_(None))
        ).scalar_one()
    return Races(
        count,
        sum(key == f"race-{result}" for key, result in ended),
        sum(one.run_id is None for one in told),
        sum(one.run_id is not None for one in told),
        max(seen, default=0),
        len(seen),
        waits,
        kept,
        seconds,
    )


_MISSED = select(func.count()).select_from(
    WAITS.join(
        EVENTS,
        and_(
            EVENTS.c.namespace == WAITS.c.namespace,
            EVENTS.c.name == WAITS.c.name,
            EVENTS.c.instance_id == WAITS.c.instance_id,
            EVENTS.c.delivered_at.is_(None),
            EVENTS.c.expires_at > EVENTS.c.fired_at,
            or_(WAITS.c.until.is_(None), WAITS.c.until > EVENTS.c.fired_at),
        ),
    )
)


@contextmanager
def looking(database: Database) -> Iterator[list[int]]:
    """All the while: how many waits stand beside a kept event they could take. Both are read at one moment."""
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            with database.read() as unit:
                seen.append(unit.connection.execute(_MISSED).scalar_one())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def until_over(database: Database, count: int) -> None:
    query = select(func.count()).select_from(RUNS).where(RUNS.c.state == "succeeded", RUNS.c.key.like("race-%"))
    known, since = -1, time.monotonic()
    while time.monotonic() - since < PATIENCE:
        with database.read() as unit:
            done = unit.connection.execute(query).scalar_one()
        if done == count:
            return
        if done != known:
            known, since = done, time.monotonic()
        time.sleep(0.05)


def fire_at_once(firers: Firers, count: int, event_id: str | None) -> Fires:
    """So many at the same time for one name and instance."""
    instance = event_id or "without an id"
    new = NewEvent(NEWS.name, instance, "1", event_id=event_id)
    began = time.monotonic()
    told = [future.result(120) for future in [firers.fire(number, new) for number in range(count)]]
    seconds = time.monotonic() - began
    stored = select(func.count()).select_from(EVENTS).where(EVENTS.c.instance_id == instance)
    with firers.database.read() as unit:
        events = unit.connection.execute(stored).scalar_one()
    return Fires(count, events, Counter(one.duplicate for one in told)[False], seconds)


def measure(databases: Databases, kinds: list[str], *, races: int, fires: int) -> tuple[Table, dict[str, Any]]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    raw: dict[str, Any] = {}
    table = Table(
        "Events fired while somebody begins to wait for them; one event fired by many at once",
        [
            "database",
            "races",
            "right payload",
            "event first",
            "wait first",
            "wait beside a kept event",
            "left over",
            "races/s",
            "fires, one id",
            "events",
            "fires, no id",
            "events",
            "fires/s",
        ],
    )
    for kind in kinds:
        url = databases.fresh(kind)
        url = url if kind == "postgresql" else f"sqlite:///{url}"
        with closing(Database(url, SystemClock())) as database:
            upgrade(database)
        with closing(Firers(url)) as firers:
            found = race(firers, races)
            same, other = fire_at_once(firers, fires, "one"), fire_at_once(firers, fires, None)
        table.add(
            kind,
            str(found.runs),
            str(found.right),
            str(found.event_first),
            str(found.wait_first),
            f"{found.missed} in {found.looks} looks",
            f"{found.left_waiting} waits, {found.left_kept} events",
            f"{found.runs / found.seconds:.0f}",
            str(same.fired),
            str(same.events),
            str(other.fired),
            str(other.events),
            f"{other.fired / other.seconds:.0f}",
        )
        raw[kind] = {"races": asdict(found), "same_id": asdict(same), "no_id": asdict(other)}
        print(f"  {kind}: {found} {same} {other}")
    return table, raw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=10_000)
    parser.add_argument("--fires", type=int, default=1000)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    parser.add_argument("--folder", default="/var/tmp", help="on a disk")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=options.folder) as folder:
        databases = Databases(Path(folder), postgres="postgresql" in options.databases)
        try:
            table, _ = measure(databases, options.databases, races=options.races, fires=options.fires)
        finally:
            databases.close()
    print("", table.text(), sep="\n")


if __name__ == "__main__":
    main()
