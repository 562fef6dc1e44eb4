from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.testing.clock import FakeClock
from hermes.testing.engine import EngineHarness
from store.database import Database


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[EngineHarness]:
    clock = FakeClock()
    database = Database(f"sqlite:///{tmp_path / 'hermes.db'}", clock)
    SQLModel.metadata.create_all(database.engine)
    harness = EngineHarness(database, clock)
    yield harness
    harness.close()
    database.close()
