from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.testing.clock import FakeClock
from hermes.testing.engine import EngineHarness
from store.database import Database


@pytest.fixture(params=["sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'hermes.db'}", FakeClock())
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
