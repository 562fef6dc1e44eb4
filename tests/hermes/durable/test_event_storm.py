"""Events fired by threads and processes at the very moment at which runs begin to wait for them. A few hundred here;
ten thousand with HERMES_DATABASES=all, or by `python -m bench.events`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.events import Firers, fire_at_once, race
from hermes.clock import SystemClock
from hermes.testing.databases import Databases

pytestmark = pytest.mark.sqlite_is_enough

ALL = os.environ.get("HERMES_DATABASES") == "all"
RACES, FIRES = (10_000, 1_000) if ALL else (300, 200)


@pytest.fixture
def firers(databases: Databases) -> Iterator[Firers]:
    databases.open(SystemClock()).close()
    firers = Firers(databases.url())
    yield firers
    firers.close()


def test_no_wait_is_left_beside_a_kept_event_and_each_gets_its_own(firers: Firers) -> None:
    found = race(firers, RACES)
    assert found.right == RACES
    assert (found.missed, found.left_waiting, found.left_kept) == (0, 0, 0)
    assert found.event_first + found.wait_first == RACES
    assert min(found.event_first, found.wait_first) > RACES // 50, "the races were none"
    assert found.looks > 10


def test_many_at_once_with_one_id_are_one_event_and_without_an_id_as_many(firers: Firers) -> None:
    same = fire_at_once(firers, FIRES, "one")
    assert (same.events, same.told_new) == (1, 1)
    other = fire_at_once(firers, FIRES, None)
    assert (other.events, other.told_new) == (FIRES, FIRES)
