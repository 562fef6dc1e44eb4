"""Threads that write at the same moment share a transaction, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.clock import SystemClock
from hermes.errors import LeaseLost, StoreUnavailable
from hermes.model.run import NewRun, RunKind
from store.database import Database
from store.unit_of_work import UnitOfWork


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'hermes.db'}", SystemClock())
    SQLModel.metadata.create_all(database.engine)
    yield database
    database.close()


def enqueue(key: str) -> Callable[[UnitOfWork], bool]:
    return lambda unit: unit.runs.enqueue(NewRun(key, RunKind.function, "f", {}))[1]


def together(database: Database, changes: list[Callable[[UnitOfWork], Any]]) -> list[Any]:
    """Commit all of them from threads of their own, the first one alone in front so that the others queue up."""
    results: list[Any] = [None] * len(changes)
    begun, go_on = threading.Event(), threading.Event()

    def slow_first(unit: UnitOfWork) -> Any:
        begun.set()
        go_on.wait(20)
        return changes[0](unit)

    def commit(number: int) -> None:
        try:
            results[number] = database.commit(slow_first if number == 0 else changes[number])
        except BaseException as exc:  # noqa: BLE001 - looked at by the test
            results[number] = exc

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(len(changes))]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    while len(database._group._queue) < len(changes) - 1:
        threading.Event().wait(0.005)
    go_on.set()
    for thread in threads:
        thread.join(20)
    return results


def test_what_queues_up_is_written_in_one_transaction(database: Database) -> None:
    begins = []
    event.listen(database.engine, "commit", lambda connection: begins.append(1))
    assert together(database, [enqueue(f"k{number}") for number in range(20)]) == [True] * 20
    assert len(begins) == 2
    with database.read() as unit:
        assert len(unit.runs.list()) == 20


def test_a_change_that_is_refused_takes_nothing_of_the_others_with_it(database: Database) -> None:
    def refused(unit: UnitOfWork) -> None:
        enqueue("half done")(unit)
        raise LeaseLost("it is somebody else's")

    results = together(database, [enqueue("first"), enqueue("a"), refused, enqueue("b"), refused])
    assert [type(result) for result in results] == [bool, bool, LeaseLost, bool, LeaseLost]
    with database.read() as unit:
        assert {run.key for run in unit.runs.list()} == {"first", "a", "b"}


def test_alone_a_change_that_raises_is_rolled_back_too(database: Database) -> None:
    def refused(unit: UnitOfWork) -> None:
        enqueue("half done")(unit)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.commit(refused)
    with database.read() as unit:
        assert unit.runs.list() == []
    assert database.commit(enqueue("and it goes on"))


def test_when_the_commit_fails_nobody_is_told_that_it_was_made(database: Database) -> None:
    def fail(connection: Any) -> None:
        raise StoreUnavailable("the disk is full")

    event.listen(database.engine, "commit", fail)
    results = together(database, [enqueue(f"k{number}") for number in range(4)])
    event.remove(database.engine, "commit", fail)
    assert [type(result) for result in results] == [StoreUnavailable] * 4
    with database.read() as unit:
        assert unit.runs.list() == []


def test_workers_are_woken_once_it_is_committed(database: Database) -> None:
    seen = []

    def look() -> None:
        with database.read() as unit:
            seen.append(len(unit.runs.list()))

    database.subscribe(look)
    together(database, [enqueue(f"k{number}") for number in range(5)])
    assert seen == [1, 5]
