from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.testing.clock import FakeClock
from hermes.testing.engine import EngineHarness
from store.database import Database

MEMORY = Path("/dev/shm")  # noqa: S108 - where the system has it: a disk adds nothing to these tests but waiting


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    if not MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite"])
def database(request: pytest.FixtureRequest, folder: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{folder / 'hermes.db'}", FakeClock())
    SQLModel.metadata.create_all(database.engine)
    yield database
    database.close()


@pytest.fixture
def harness(database: Database) -> Iterator[EngineHarness]:
    clock = database.clock
    assert isinstance(clock, FakeClock)
    harness = EngineHarness(database, clock)
    yield harness
    harness.close()
