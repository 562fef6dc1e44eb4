"""For test_full_disk.py: `python full_disk_work.py FOLDER disk|quota`. Durable runs while FOLDER gets full at each of
their transactions in turn, and has room again a little later. Prints how many transactions were met."""

from __future__ import annotations

import resource
import sqlite3
import sys
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.durable import command, delay, function
from hermes.durable.worker import Worker
from hermes.errors import StoreUnavailable
from hermes.model.run import NewRun, Run, RunKind, RunState
from hermes.testing.clock import FakeClock
from store.database import Database

FOLDER, HOW = Path(sys.argv[1]), sys.argv[2]
BALLAST = FOLDER / "ballast"
made: list[int] = []


class Space(FakeClock):
    """There is room again when somebody has waited three times."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.waits += 1
        if self.waits == 3:
            free()


def fill() -> None:
    if HOW == "quota":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return
    with BALLAST.open("ab", buffering=0) as ballast:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while ballast.write(b"x" * size):
                    pass


def free() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    BALLAST.unlink(missing_ok=True)


@command
def act(place: int) -> int:
    made.append(place)
    return place


@function
async def job() -> int:
    total = await act(1)
    await delay(timedelta(seconds=30))
    return total + await act(2)


def main() -> None:
    clock = Space()
    database = Database(f"sqlite:///{FOLDER}/hermes.db", clock)
    SQLModel.metadata.create_all(database.engine)
    worker = Worker(database, clock)
    begun, at, refused = 0, 0, 0

    @event.listens_for(database.engine, "begin")
    def get_full(connection: Any) -> None:
        nonlocal begun
        if connection.get_execution_options().get("hermes_writes"):
            begun += 1
            if begun == at > 0:
                fill()

    def look(run_id: str) -> Run:
        with database.read() as unit:
            run = unit.runs.get(run_id)
        assert run is not None
        return run

    met = True
    while met:
        made.clear()
        begun = -1_000  # what is enqueued is not counted
        with database.write() as unit:
            run_id = unit.runs.enqueue(NewRun(f"k{at + 1}", RunKind.function, job.name, {}))[0]
        begun, at, clock.waits = 0, at + 1, 0
        while not look(run_id).state.final:
            try:
                worker.run_due()
                clock.advance(timedelta(seconds=10))
            except StoreUnavailable:
                refused += 1
                clock.sleep(1)
        free()
        met, begun = begun >= at, 0
        run = look(run_id)
        assert (run.state, run.result, made) == (RunState.succeeded, 3, [1, 2]), (at, run.state, made)
        assert (run.crashes, run.take_overs) == (0, 0), (at, run)
        with closing(sqlite3.connect(FOLDER / "hermes.db")) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert refused > 0
    worker.close()
    database.close()
    print(f"{at - 1} transactions met")


if __name__ == "__main__":
    main()
