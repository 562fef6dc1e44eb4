from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.engine import EngineHarness
from store.database import Database


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.open(FakeClock())


@pytest.fixture
def harness(database: Database) -> Iterator[EngineHarness]:
    clock = database.clock
    assert isinstance(clock, FakeClock)
    harness = EngineHarness(database, clock)
    yield harness
    harness.close()
