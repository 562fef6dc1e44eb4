"""SQLite files that cannot be written for now, or vanish under a running process (failure catalogue, D2, D8)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from hermes.errors import StoreDamaged, StoreUnavailable
from hermes.model.run import NewRun, RunKind
from hermes.testing.clock import FakeClock
from hermes.testing.databases import sqlite_files
from store.database import Database
from store.unit_of_work import UnitOfWork


@pytest.fixture
def file(folder: Path) -> Iterator[Database]:
    with sqlite_files(folder) as files:
        yield files.open(FakeClock())


def enqueue(unit: UnitOfWork, key: str = "k") -> None:
    unit.runs.enqueue(NewRun(key, RunKind.function, "f", {}))


def keys(database: Database) -> list[str]:
    with database.read() as unit:
        return sorted(run.key for run in unit.runs.list())


def test_D2_a_file_that_may_only_be_read_is_an_outage_and_can_be_read(file: Database) -> None:
    file.commit(enqueue)
    only_read = True

    @event.listens_for(file.engine, "checkout")
    def as_on_a_disk_that_was_mounted_to_be_read(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute(f"PRAGMA query_only={int(only_read)}")

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="readonly") as refused:
            file.commit(lambda unit: enqueue(unit, "not now"))
        assert not isinstance(refused.value, StoreDamaged)  # it may be written again, and nobody has to start anew
    assert keys(file) == ["k"]
    only_read = False
    file.commit(lambda unit: enqueue(unit, "next"))
    assert keys(file) == ["k", "next"]


def remove(path: Path) -> None:
    path.unlink()


def remove_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def put_a_backup_in_its_place(path: Path) -> None:
    shutil.copy(path, path.with_name("backup"))
    os.replace(path.with_name("backup"), path)


@pytest.mark.parametrize("happens", [remove, remove_log, put_a_backup_in_its_place])
def test_D8_a_file_that_is_taken_away_under_a_running_process_takes_nothing_more(
    file: Database, happens: Callable[[Path], None]
) -> None:
    """SQLite would go on and say that it has written, to a file that nobody can open any more."""
    file.commit(enqueue)
    happens(Path(str(file.url.database)))
    for urgent in (False, True):
        with pytest.raises(StoreDamaged, match=r"removed or replaced.*board adopt"), file.write(urgent=urgent):
            pytest.fail("a run could be leased")
    with pytest.raises(StoreDamaged):
        file.commit(enqueue)


def test_a_file_whose_connections_were_all_closed_is_the_same_as_before(file: Database) -> None:
    """The last to close takes the -wal along, and the next makes another."""
    file.commit(enqueue)
    file.close()
    file.commit(lambda unit: enqueue(unit, "next"))
    assert keys(file) == ["k", "next"]
