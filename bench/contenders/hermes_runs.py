"""Hermes: a durable function of three commands. SQLite with synchronous=FULL, or PostgreSQL; nothing else is set."""

from __future__ import annotations

from bench.contenders.asked import Asked, asked, step, timed, until_told
from hermes.clock import SystemClock
from hermes.durable import command, function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.model.run import NewRun, RunKind
from store.database import Database
from store.migrate import upgrade


@command(name="bench.act")
def act(job: int, place: int) -> int:
    return step(job, place)


@function(name="bench.work")
async def work(job: int) -> int:
    total = await act(job, 1)
    total += await act(job, 2)
    return total + await act(job, 3)


def opened(ask: Asked) -> Database:
    url = (
        ask.database.replace("postgresql://", "postgresql+psycopg://") if ask.postgres else f"sqlite:///{ask.database}"
    )
    database = Database(url, SystemClock())
    upgrade(database)
    return database


def enqueue(database: Database, jobs: int) -> None:
    for first in range(0, jobs, 500):
        with database.write() as unit:
            for job in range(first, min(first + 500, jobs)):
                unit.runs.enqueue(NewRun(f"job-{job}", RunKind.function, work.name, {"job": job}))


def main() -> None:
    ask = asked()
    database = opened(ask)
    if ask.verb == "enqueue":
        timed(lambda: enqueue(database, ask.jobs))
        return
    worker = Worker(database, SystemClock(), EngineSettings(slots=ask.slots))
    worker.start()
    until_told()
    worker.stop()


if __name__ == "__main__":
    main()
