"""Hermes: a durable function of three commands. SQLite with synchronous=FULL, or PostgreSQL; nothing else is set."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from bench.contenders.asked import ASLEEP, Asked, asked, step, timed, until_told
from hermes.clock import SystemClock
from hermes.durable import Event, command, delay, function, now, wait_for_event
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.model.run import NewRun, RunKind
from store.database import Database
from store.migrate import upgrade

PAID = Event("PAYMENT_CONFIRMED")


@command(name="bench.act")
def act(job: int, place: int) -> int:
    return step(job, place)


@command(name="bench.hold")
def hold(job: int, seconds: float) -> int:
    time.sleep(seconds)
    return step(job, 1)


@function(name="bench.work")
async def work(job: int) -> int:
    total = await act(job, 1)
    total += await act(job, 2)
    return total + await act(job, 3)


@function(name="bench.sleep")
async def sleep(job: int) -> int:
    await act(job, 1)
    await delay(ASLEEP)
    return await act(job, 2)


@function(name="bench.nap")
async def nap(job: int) -> int:
    await delay(ASLEEP)
    return await act(job, 1)


@function(name="bench.wait")
async def wait(job: int) -> int:
    await wait_for_event(PAID, f"order-{job}", timeout=ASLEEP)
    return await act(job, 1)


@function(name="bench.timer")
async def timer(job: int, until: datetime) -> int:
    await delay(until - now())
    return await act(job, 1)


@function(name="bench.long")
async def long(job: int, seconds: float) -> int:
    return await hold(job, seconds)


FUNCTIONS = {"steps": work, "sleep": sleep, "nap": nap, "wait": wait, "timer": timer, "long": long}
BEYOND = 20
"""Seconds that a job of kind `long` is still at work when the timers have become due."""


def opened(ask: Asked) -> Database:
    url = (
        ask.database.replace("postgresql://", "postgresql+psycopg://") if ask.postgres else f"sqlite:///{ask.database}"
    )
    database = Database(url, SystemClock())
    upgrade(database)
    return database


def enqueue(database: Database, ask: Asked) -> None:
    called = FUNCTIONS[ask.kind].name
    at_work = (ask.until - datetime.now(UTC)).total_seconds() + BEYOND
    more = {"timer": {"until": ask.until.isoformat()}, "long": {"seconds": at_work}}.get(ask.kind, {})
    for first in range(ask.first, ask.first + ask.jobs, 500):
        with database.write() as unit:
            for job in range(first, min(first + 500, ask.first + ask.jobs)):
                unit.runs.enqueue(NewRun(f"{ask.kind}-{job}", RunKind.function, called, {"job": job, **more}))


def main() -> None:
    ask = asked()
    database = opened(ask)
    if ask.verb == "enqueue":
        timed(lambda: enqueue(database, ask))
        return
    settings = EngineSettings(slots=ask.slots)
    if ask.timeout:
        settings = EngineSettings(slots=ask.slots, lease=timedelta(seconds=ask.timeout))
    worker = Worker(database, SystemClock(), settings)
    worker.start()
    until_told()
    worker.stop()


if __name__ == "__main__":
    main()
