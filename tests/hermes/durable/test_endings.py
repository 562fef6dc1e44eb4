"""What an ending means: the table of DESIGN.md section 5, and stopping a run by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlmodel import SQLModel

from hermes.crash_points import CrashPoint
from hermes.durable import Refused, Snooze, command, delay, function
from hermes.durable.settings import EngineSettings
from hermes.model.run import NewRun, RunKind, RunState
from hermes.ports.runs import Resumed
from hermes.testing.clock import FakeClock
from hermes.testing.engine import EngineHarness
from store.database import Database
from store.unit_of_work import UnitOfWork


def test_a_value_succeeds_and_is_kept(harness: EngineHarness) -> None:
    @function
    async def job() -> dict[str, datetime] | Refused | Snooze:
        return {"at": harness.clock.now()}

    run = harness.run(job)
    assert (run.state, run.result) == (RunState.succeeded, {"at": "2026-01-05T09:00:00Z"})
    assert run.finished_at == harness.clock.now()


def test_a_refusal_is_an_ending_of_its_own_and_no_error(harness: EngineHarness) -> None:
    @function
    async def job() -> str | Refused:
        return Refused("the card asks for what we do not do")

    run = harness.run(job)
    assert (run.state, run.reason) == (RunState.refused, "the card asks for what we do not do")
    assert (run.error, run.deliveries) == (None, 0)
    with harness.database.write() as unit:
        assert unit.runs.resume(run.id) is Resumed.not_stopped


def test_a_result_that_cannot_be_kept_fails_with_the_reason(harness: EngineHarness) -> None:
    @function
    async def job() -> int:
        return "many"  # type: ignore[return-value]

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert "does not fit its annotation" in run.error.message


@pytest.mark.parametrize("when", ["ready", "waiting"])
def test_a_run_that_nobody_drives_is_cancelled_at_once(harness: EngineHarness, when: str) -> None:
    @function
    async def job() -> None:
        await delay(timedelta(hours=1))

    run_id = harness.enqueue(job)
    if when == "waiting":
        harness.worker.run_due()
    with harness.database.write() as unit:
        assert unit.runs.cancel(run_id, "moved to Complete by Ann")
        assert not unit.runs.cancel(run_id, "twice")
    run = harness.finish(run_id)
    assert (run.state, run.reason) == (RunState.cancelled, "moved to Complete by Ann")


@pytest.mark.parametrize("then", ["command", "delay", "failure"])
def test_a_running_run_stops_at_its_next_step_and_the_effect_in_flight_finishes(
    harness: EngineHarness, then: str
) -> None:
    outside = harness.outside

    @command(retries=2)
    def act() -> None:
        with harness.database.write() as unit:
            assert unit.runs.cancel(run_id, "moved to trash")
        outside.happened("act")
        if then == "failure":
            raise ConnectionError("down")

    @command
    def later() -> None:
        outside.happened("later")

    @function
    async def job() -> None:
        await act()
        if then == "delay":
            await delay(timedelta(days=1))
        await later()

    run_id = harness.enqueue(job)
    harness.worker.run_due()

    run = harness.get(run_id)
    assert (run.state, run.reason) == (RunState.cancelled, "moved to trash")
    assert (outside.count("act"), outside.count("later")) == (1, 0)
    if then != "failure":
        with harness.database.read() as unit:
            assert unit.runs.steps(run_id)[0].result_json == "null"


def test_a_run_that_ends_before_its_next_step_has_ended(harness: EngineHarness) -> None:
    @command
    def act() -> str:
        with harness.database.write() as unit:
            unit.runs.cancel(run_id, "too late")
        return "done"

    @function
    async def job() -> str:
        return await act()

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.succeeded


def test_a_run_asked_to_stop_whose_worker_died_is_cancelled_and_not_continued(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act() -> None:
        outside.happened("act")

    @function
    async def job() -> None:
        await act()

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.before_intent):
        harness.worker.run_due()
    with harness.database.write() as unit:
        unit.runs.cancel(run_id, "stop it")
    harness.take_over()
    assert harness.finish(run_id).state is RunState.cancelled
    assert outside.count("act") == 0


def test_a_run_asked_to_stop_that_then_raises_is_not_delivered_again(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act() -> None:
        with harness.database.write() as unit:
            unit.runs.cancel(run_id, "moved to trash")

    @function
    async def job() -> None:
        outside.happened("delivery")
        await act()
        raise ValueError("no")

    run_id = harness.enqueue(job, new={"hold_on_redelivery": True})
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.cancelled
    assert outside.count("delivery") == 1


def test_a_cancelled_run_may_be_resumed(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        return "done"

    run_id = harness.enqueue(job)
    with harness.database.write() as unit:
        unit.runs.cancel(run_id, "by mistake")
        assert unit.runs.resume(run_id, held=True, by="Ann") is Resumed.resumed
    assert harness.worker.run_due() == 0
    with harness.database.write() as unit:
        unit.runs.release_hold(run_id)
    run = harness.finish(run_id)
    assert (run.state, run.cancel_reason, run.reason) == (RunState.succeeded, None, None)


def test_the_owner_of_a_card_hears_of_every_change_in_its_own_transaction(tmp_path: Path) -> None:
    heard: list[tuple[str, str | None]] = []

    class Telling(UnitOfWork):
        def run_changed(self, run_id: str, kind: str, object_id: str | None) -> None:
            state = self.runs.get(run_id).state  # type: ignore[union-attr]
            heard.append((state.value, object_id))

    clock = FakeClock()
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", clock, unit=Telling)
    SQLModel.metadata.create_all(database.engine)
    harness = EngineHarness(database, clock, EngineSettings())

    @command(retries=1)
    def act() -> None:
        if harness.outside.happened("act") < 3:
            raise ConnectionError("down")

    @function
    async def job() -> None:
        await act()
        await delay(timedelta(hours=1))

    new = {"kind": RunKind.card, "object_id": "card-1"}
    harness.finish(harness.enqueue(job, new=new))
    other = harness.enqueue(job, new=new)
    with database.write() as unit:
        unit.runs.cancel(other, "people win")
        unit.runs.resume(other)
    harness.close()
    database.close()

    assert heard == [
        ("waiting", "card-1"),  # between the two attempts
        ("ready", "card-1"),  # redelivered
        ("waiting", "card-1"),  # sleeps
        ("succeeded", "card-1"),
        ("cancelled", "card-1"),
        ("ready", "card-1"),
    ]


def test_a_key_that_is_taken_keeps_its_ending(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        return "done"

    run_id = harness.enqueue(job, new={"key": "k"})
    harness.finish(run_id)
    with harness.database.write() as unit:
        assert unit.runs.enqueue(NewRun("k", RunKind.function, job.name, {})) == (run_id, False)
    assert harness.worker.run_due() == 0
