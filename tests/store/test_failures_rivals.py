"""Rivals, leases and clocks as a run's database sees them (failure catalogue, C3, C10, D6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from hermes.crash_points import CrashPoint, arm
from hermes.durable import command, function
from hermes.errors import StoreUnavailable
from hermes.model.run import RunState
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.engine import EngineHarness
from store.database import Database
from store.tables.runs import RUNS


class Away(FakeClock):
    """While `away` the database answers nobody; how long that is, is told by who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.back_at = 0.0
        self.back: Any = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.away and self.boot_seconds() >= self.back_at:
            self.away = False
            self.back()


@pytest.fixture
def clock() -> Away:
    return Away()


@pytest.fixture
def harness(databases: Databases, clock: Away, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineHarness]:
    begin = Database._begin

    def unless_away(database: Database, *given: Any, **how: Any) -> Any:
        if clock.away:
            raise StoreUnavailable("nobody answers")
        return begin(database, *given, **how)

    monkeypatch.setattr(Database, "_begin", unless_away)
    harness = EngineHarness(databases.open(clock), clock)
    yield harness
    harness.close()


@contextmanager
def at(point: CrashPoint, hit: int, what: Any) -> Iterator[None]:
    """`what` happens when somebody reaches that point for the `hit`-th time."""
    left = hit

    def reached(which: CrashPoint) -> None:
        nonlocal left
        if which is point:
            left -= 1
            if left == 0:
                what()

    arm(reached)
    try:
        yield
    finally:
        arm(None)


def two_effects(harness: EngineHarness) -> Any:
    @command
    def act(place: int) -> int:
        harness.outside.happened("act", place)
        return place

    @function
    async def job() -> int:
        return await act(1) + await act(2)

    return job


def test_C3_a_worker_that_cannot_renew_starts_nothing_once_its_lease_is_over(
    harness: EngineHarness, clock: Away
) -> None:
    """The database is away from the second intent on, and comes back when the lease has long been over."""
    lease = harness.settings.lease
    run_id = harness.enqueue(two_effects(harness))
    other = harness.new_worker()

    def goes_away() -> None:
        clock.advance(lease * 0.7)  # in the last third: an effect would need a renewal
        clock.away, clock.back_at = True, clock.boot_seconds() + lease.total_seconds()
        clock.back = lambda: pytest.fail("it waited for longer than its lease")

    with at(CrashPoint.after_intent, 2, goes_away):
        ((leased, held),) = harness.worker.lease(1)
        harness.worker.drive(leased, held)
    assert harness.outside.about("act") == [1]
    assert clock.away  # it stopped by its own clock, with nobody to ask
    clock.away = False
    with harness.database.read() as unit:
        run = unit.runs.get(run_id)
    assert run is not None
    assert run.state is RunState.running
    assert run.lease_until is not None
    assert abs(clock.now() - run.lease_until) <= harness.settings.store_retry
    clock.advance(timedelta(seconds=1))
    assert other.rescue() == [run_id]
    other.run_due()
    assert harness.outside.about("act") == [1, 2]
    assert harness.get(run_id).result == 3


def test_C3_a_renewal_that_failed_once_is_made_right_before_the_next_effect(
    harness: EngineHarness, clock: Away
) -> None:
    """Shorter than the rest of the lease: nothing is taken over and nothing is done twice."""
    lease = harness.settings.lease
    run_id = harness.enqueue(two_effects(harness))

    def goes_away() -> None:
        clock.advance(lease * 0.7)
        clock.away, clock.back_at = True, clock.boot_seconds() + lease.total_seconds() * 0.2

    with at(CrashPoint.after_intent, 2, goes_away):
        harness.worker.run_due()
    run = harness.get(run_id)
    assert (run.state, run.result, run.take_overs, run.fence) == (RunState.succeeded, 3, 0, 1)
    assert harness.outside.about("act") == [1, 2]
    assert clock.back_at <= clock.boot_seconds() < clock.back_at + 1


def test_C10_a_worker_that_comes_back_under_its_old_name_is_another(harness: EngineHarness) -> None:
    """Whatever a person calls it, on whatever host and with whatever pid: what the dead one held is not its own."""
    run_id = harness.enqueue(two_effects(harness))
    with harness.dying_at(CrashPoint.effect_sent, 2):
        harness.worker.run_due()
    again = harness.new_worker()
    assert again.owner != harness.worker.owner
    with harness.database.write() as unit:
        (lease,) = unit.leases.of(harness.worker.owner)
        assert unit.leases.of(again.owner) == set()
        assert unit.leases.renew(again.owner, [lease], harness.settings.lease) == set()
    assert again.run_due() == 0  # not before the dead one's lease is over
    assert len({harness.new_worker().owner for _ in range(50)}) == 50
    harness.take_over()
    again.run_due()
    assert harness.get(run_id).take_overs == 1


def test_D6_a_rescue_from_a_stale_list_takes_no_run_from_a_living_worker(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list shows runs that have been renewed since: the update says so, by its row count."""
    run_id = harness.enqueue(two_effects(harness))
    assert len(harness.worker.lease(1)) == 1
    monkeypatch.setattr("store.leases._EXPIRED", select(RUNS).where(RUNS.c.state == "running"))
    assert harness.new_worker().rescue() == []
    run = harness.get(run_id)
    assert (run.state, run.owner, run.take_overs) == (RunState.running, harness.worker.owner, 0)
    harness.clock.advance(harness.settings.lease + timedelta(seconds=1))
    assert harness.new_worker().rescue() == [run_id]
    assert harness.new_worker().rescue() == []
    assert harness.get(run_id).take_overs == 1
