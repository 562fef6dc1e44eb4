"""Promise 4: a delay hibernates, survives restarts, is never early and hardly late."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.clock import SystemClock
from hermes.crash_points import CrashPoint
from hermes.durable import command, delay, function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.model.run import NewRun, RunKind, RunState
from hermes.ports.runs import Decision
from hermes.testing.engine import EngineHarness
from store.database import Database


def test_a_sleeping_run_holds_nothing(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        await delay(timedelta(hours=3))
        return "woken"

    with harness.database.write() as unit:
        unit.places.set_places("g", 1)
    run_id = harness.enqueue(job, new={"place_group": "g"})
    harness.worker.run_due()

    run = harness.get(run_id)
    assert (run.state, run.owner, run.lease_until) == (RunState.waiting, None, None)
    assert run.due_at == harness.clock.now() + timedelta(hours=3)
    assert len(harness.worker.held) == 0
    with harness.database.read() as unit:
        assert unit.places.free_places("g") == 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.floats(0.001, 10_000_000), step=st.floats(0.1, 100_000))
def test_never_early_and_late_by_at_most_one_look(harness: EngineHarness, length: float, step: float) -> None:
    woken = []
    wait = timedelta(seconds=length)
    look = timedelta(seconds=max(step, length / 20))

    @function
    async def job() -> None:
        await delay(wait)
        woken.append(harness.clock.now())

    began = harness.clock.now()
    harness.enqueue(job, new={"key": f"{length} {step}"})
    while not woken:
        harness.worker.run_due()
        harness.clock.advance(look)
    assert began + wait <= woken[0] <= began + wait + look


def test_a_delay_is_counted_from_when_it_was_called(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="none")
    def look() -> None:
        outside.happened("look", harness.clock.now())

    @function
    async def job() -> str:
        deadline = delay(timedelta(minutes=10))
        await look()
        await delay(timedelta(minutes=4))
        await deadline
        await deadline  # a handle may be awaited again
        await look()
        return "done"

    run = harness.run(job)

    assert run.result == "done"
    first, second = outside.about("look")
    assert second - first == timedelta(minutes=10)


@pytest.mark.parametrize("point", [CrashPoint.delay_armed, CrashPoint.before_intent])
def test_an_armed_delay_survives_a_crash_and_fires_once(harness: EngineHarness, point: CrashPoint) -> None:
    outside = harness.outside

    @command
    def ring() -> None:
        outside.happened("ring", harness.clock.now())

    @function
    async def job() -> None:
        await delay(timedelta(hours=1))
        await ring()

    began = harness.clock.now()
    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
        harness.pass_to_next_due()
        harness.worker.run_due()
    harness.worker = harness.new_worker()
    assert harness.finish(run_id).state is RunState.succeeded
    (rung,) = outside.about("ring")
    assert rung - began >= timedelta(hours=1)


def test_a_delay_that_passed_stays_passed_when_the_clock_steps_back(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="naive")
    def ring() -> None:
        outside.happened("ring")
        raise ValueError("who knows")

    @function
    async def job() -> str:
        await delay(timedelta(hours=1))
        await ring()
        return "rung"

    run_id = harness.enqueue(job)
    assert harness.finish(run_id).state is RunState.parked
    harness.clock.step_wall(-timedelta(minutes=30))
    with harness.database.write() as unit:
        unit.runs.resume(run_id, decision=Decision.done)
    harness.worker.run_due()

    assert harness.get(run_id).result == "rung"
    assert outside.count("ring") == 1


@pytest.mark.parametrize("length", [timedelta(0), timedelta(seconds=-5)])
def test_a_delay_of_nothing_passes_at_once(harness: EngineHarness, length: timedelta) -> None:
    @function
    async def job() -> str:
        await delay(length)
        return "done"

    run_id = harness.enqueue(job)
    assert harness.worker.run_due() == 1
    assert harness.get(run_id).result == "done"


def test_a_delay_beyond_all_calendars_is_refused_where_it_is_asked_for(harness: EngineHarness) -> None:
    @function
    async def job() -> None:
        await delay(timedelta.max)

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert "at most 36,525" in run.error.message


def test_thousands_sleep_in_rows_and_no_more_threads(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """With real threads: 2,000 sleepers and 4 slots; what is ready is not kept waiting by them."""
    from sqlmodel import SQLModel

    @function
    async def sleeper() -> None:
        await delay(timedelta(days=1))

    @function
    async def quick() -> str:
        return "done"

    database = Database(f"sqlite:///{tmp_path / 'sleepers.db'}", SystemClock())
    SQLModel.metadata.create_all(database.engine)
    with database.write() as unit:
        for number in range(2_000):
            run_id, _ = unit.runs.enqueue(NewRun(f"sleeper {number}", RunKind.function, sleeper.name, {}))
    # As if they had been delivered once: driving each is not what is tried here.
    with database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE runs SET state = 'waiting', due_at = datetime('now', '+1 day')")
    worker = Worker(database, SystemClock(), EngineSettings(slots=4))
    worker.start()
    before = threading.active_count()
    try:
        began = time.monotonic()
        with database.write() as unit:
            run_id, _ = unit.runs.enqueue(NewRun("quick", RunKind.function, quick.name, {}))
        while True:
            with database.read() as unit:
                run = unit.runs.get(run_id)
            if run is not None and run.state.final:
                break
            assert time.monotonic() - began < 10
            threading.Event().wait(0.01)
        assert threading.active_count() <= before + 1
    finally:
        worker.stop()
        database.close()
