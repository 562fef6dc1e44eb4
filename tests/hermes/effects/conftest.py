from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.engine import EngineHarness


@pytest.fixture
def harness(databases: Databases) -> Iterator[EngineHarness]:
    clock = FakeClock()
    harness = EngineHarness(databases.open(clock), clock)
    yield harness
    harness.close()
