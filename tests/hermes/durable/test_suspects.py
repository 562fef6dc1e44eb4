"""A run that kills its process takes the runs beside it along: it must not take the blame away from itself (W14)."""

from __future__ import annotations

from datetime import timedelta

from hermes.durable.function import function
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness


@function(name="suspects.works")
async def works() -> str:
    return "well"


def die_together(harness: EngineHarness) -> set[str]:
    """A worker takes whatever it may and dies with all of it."""
    worker = harness.new_worker()
    taken = [leased.run.id for leased, _ in worker.lease(10)]
    harness.take_over()
    rest(harness)
    return set(taken)


def rest(harness: EngineHarness) -> None:
    """Until no suspect need wait any more."""
    harness.clock.advance(timedelta(minutes=5))


def test_after_two_crashes_a_worker_starts_one_suspect_at_a_time(harness: EngineHarness) -> None:
    runs = {harness.enqueue(works) for _ in range(4)}
    assert die_together(harness) == runs
    assert die_together(harness) == runs
    worker = harness.new_worker()
    first = worker.lease(10)
    assert len(first) == 1
    assert worker.lease(10) == [], "the others wait until it has left"
    fresh = harness.enqueue(works)
    assert [leased.run.id for leased, _ in worker.lease(10)] == [fresh]
    worker.drive(*first[0])
    assert harness.get(first[0][0].run.id).state is RunState.succeeded
    assert len(worker.lease(10)) == 1


def test_a_suspect_that_lives_through_a_lease_holds_up_nobody(harness: EngineHarness) -> None:
    for _ in range(3):
        harness.enqueue(works)
    die_together(harness)
    die_together(harness)
    worker = harness.new_worker()
    assert len(worker.lease(10)) == 1
    harness.clock.advance(harness.settings.lease / 2)
    worker.heartbeat()
    assert worker.lease(10) == []
    harness.clock.advance(harness.settings.lease / 2 + timedelta(seconds=1))
    worker.heartbeat()
    assert len(worker.lease(10)) == 1


def test_those_that_died_beside_a_poison_run_are_not_parked_with_it(harness: EngineHarness) -> None:
    poison, *others = (harness.enqueue(works) for _ in range(4))
    deaths = 0
    while harness.get(poison).state is not RunState.parked:
        worker = harness.new_worker()
        taken = worker.lease(10)
        if poison in {leased.run.id for leased, _ in taken}:
            deaths += 1
        else:
            for leased, held in taken:
                worker.drive(leased, held)
        harness.take_over()
        rest(harness)
        assert deaths <= 5
    assert deaths == 5
    for run_id in others:
        assert harness.finish(run_id).state is RunState.succeeded


def test_a_suspect_rests_longer_after_each_crash(harness: EngineHarness) -> None:
    run_id = harness.enqueue(works)
    waits = []
    for _ in range(4):
        assert harness.new_worker().lease(1)
        harness.take_over()
        due_at = harness.get(run_id).due_at
        assert due_at is not None
        waits.append((due_at - harness.clock.now()).total_seconds())
        harness.clock.advance(due_at - harness.clock.now())
    assert waits == [0, 10, 20, 40]
