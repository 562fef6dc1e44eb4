"""Pragmas, transactions, and what happens when two of them meet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.clock import SystemClock
from hermes.errors import StoreError, StoreUnavailable
from hermes.model.run import NewRun, RunKind
from store.database import BUSY_TIMEOUT_MS, Database, database_url


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'new folder' / 'hermes.db'}", SystemClock())
    SQLModel.metadata.create_all(database.engine)
    yield database
    database.close()


def pragmas(engine: Engine) -> dict[str, object]:
    with engine.connect() as connection:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return {name: connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in names}


def test_pragmas_hold_on_every_connection_before_and_after_use(database: Database) -> None:
    full = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": BUSY_TIMEOUT_MS}
    for _ in range(3):
        assert pragmas(database.engine) == full
        assert pragmas(database._bookkeeping) == full | {"synchronous": 1}
        with database.write() as unit:
            assert unit.connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        with database.write(durable=False) as unit:
            assert unit.connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 1
    with database.engine.connect() as one, database.engine.connect() as two:
        assert [c.exec_driver_sql("PRAGMA synchronous").scalar_one() for c in (one, two)] == [2, 2]


def test_a_writer_says_so_at_the_start_and_a_reader_never_blocks(database: Database) -> None:
    with database.write() as unit:
        unit.runs.enqueue(NewRun("k", RunKind.function, "f", {}))
        seen = []
        thread = threading.Thread(target=lambda: seen.append(_count(database)))
        thread.start()
        thread.join(10)
        assert seen == [0]
    assert _count(database) == 1


def _count(database: Database) -> int:
    with database.read() as unit:
        return len(unit.runs.list())


def test_a_block_that_raises_changes_nothing(database: Database) -> None:
    def write_and_raise() -> None:
        with database.write() as unit:
            unit.runs.enqueue(NewRun("k", RunKind.function, "f", {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_raise()
    assert _count(database) == 0
    with database.write() as unit:  # and the lock is free again
        unit.runs.enqueue(NewRun("k", RunKind.function, "f", {}))


def test_transactions_do_not_nest(database: Database) -> None:
    with database.write(), pytest.raises(StoreError, match="do not nest"), database.write():
        pass
    with database.write():
        pass


def test_work_that_became_due_is_told_after_the_commit_only(database: Database) -> None:
    told: list[int] = []
    end = database.subscribe(lambda: told.append(_count(database)))
    with database.write() as unit:
        unit.runs.enqueue(NewRun("a", RunKind.function, "f", {}))
        assert told == []
    assert told == [1]
    with database.write() as unit:
        unit.runs.enqueue(NewRun("a", RunKind.function, "f", {}))  # nothing new
    end()
    with database.write() as unit:
        unit.runs.enqueue(NewRun("b", RunKind.function, "f", {}))
    assert told == [1]


def test_D1_a_locked_database_is_unavailable_and_a_broken_rule_is_not(database: Database) -> None:
    with database.write() as unit:
        unit.runs.enqueue(NewRun("k", RunKind.function, "f", {}))
    database.close()
    impatient = Database(str(database.url), SystemClock())
    with impatient.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout=1")
    blocker = database.engine.connect()
    blocker.exec_driver_sql("PRAGMA user_version")  # begins
    blocker.rollback()
    with (
        blocker.execution_options(hermes_writes=True).begin(),
        pytest.raises(StoreUnavailable, match="locked"),
        impatient.write(),
    ):
        pass
    blocker.close()
    with pytest.raises(IntegrityError), impatient.write() as unit:
        unit.connection.exec_driver_sql("UPDATE runs SET key = ''")
    impatient.close()


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(StoreError, match="name a file"):
        Database("sqlite://", SystemClock())


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://u:secret@db/h", "postgresql+psycopg"),
        ("postgres://u:secret@db/h", "postgresql+psycopg"),
        ("postgresql+psycopg://u:secret@db/h", "postgresql+psycopg"),
        ("sqlite:///h.db", "sqlite"),
    ],
)
def test_a_url_is_taken_as_operators_write_it(url: str, driver: str) -> None:
    made = database_url(url)
    assert made.drivername == driver
    assert "secret" not in repr(made) + made.render_as_string()


@pytest.mark.parametrize("url", ["mysql://db/h", "postgresql+psycopg2://u:secret@db/h", "sqlite+aiosqlite:///h.db"])
def test_a_database_that_hermes_does_not_speak_is_refused_with_what_it_does(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite or postgresql") as refused:
        database_url(url)
    assert "secret" not in str(refused.value)
