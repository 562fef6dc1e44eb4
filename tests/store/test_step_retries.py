"""A person grants a step new attempts: only where the function has not gone on without it, and never what is done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import Refused, command, function, start, when_all
from hermes.errors import UnknownOutcome
from hermes.model.run import RunState
from hermes.model.step import StepState
from hermes.ports.retries import StepRetried
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.engine import EngineHarness


@pytest.fixture
def harness(databases: Databases) -> Iterator[EngineHarness]:
    clock = FakeClock()
    harness = EngineHarness(databases.open(clock), clock)
    yield harness
    harness.close()


def retry(harness: EngineHarness, run_id: str, seq: int) -> StepRetried:
    with harness.database.write() as unit:
        return unit.runs.retry_step(run_id, seq, by="a person")


def test_a_failed_step_gets_its_attempts_and_the_run_goes_on(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def pay() -> str:
        if outside.happened("pay") == 1:
            raise ConnectionError("down")
        return "paid"

    @function
    async def job() -> str:
        return await pay()

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    assert harness.finish(run_id).state is RunState.failed
    with harness.database.write() as unit:
        unit.runs.resume(run_id)
    assert harness.finish(run_id).state is RunState.failed, "a resume alone never repeats what is at most once"
    assert outside.count("pay") == 1
    assert retry(harness, run_id, 1) is StepRetried.granted
    assert retry(harness, run_id, 1) is StepRetried.live
    assert harness.finish(run_id).result == "paid"
    assert retry(harness, run_id, 1) is StepRetried.over
    with harness.database.read() as unit:
        (granted,) = [entry for entry in unit.runs.timeline(run_id) if entry.what == "retry granted"]
    assert (granted.step, granted.detail) == (1, {"by": "a person"})


def test_a_failure_that_the_function_went_on_from_is_final(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def pay() -> None:
        outside.happened("pay")
        raise ConnectionError("down")

    @command
    def apologise() -> None:
        outside.happened("apologise")

    @function
    async def job() -> None:
        try:
            await pay()
        except ConnectionError:
            await apologise()
        raise RuntimeError("and then it broke")

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    assert harness.finish(run_id).state is RunState.failed
    assert retry(harness, run_id, 1) is StepRetried.final
    assert retry(harness, run_id, 2) is StepRetried.done
    assert retry(harness, run_id, 3) is StepRetried.unknown_step
    assert retry(harness, "nobody", 1) is StepRetried.unknown_run
    assert harness.get(run_id).state is RunState.failed
    assert outside.count("pay") == 1


def test_steps_side_by_side_do_not_make_each_others_failures_final(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def left() -> str:
        if outside.happened("left") == 1:
            raise ConnectionError("down")
        return "left"

    @command(retries=0)
    def right() -> str:
        harness.clock.advance(timedelta(seconds=1))
        if outside.happened("right") == 1:
            raise ConnectionError("down too")
        return "right"

    @function
    async def job() -> list[str]:
        one, two = await when_all(left(), right())
        return [one, two]

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    assert harness.finish(run_id).state is RunState.failed
    assert retry(harness, run_id, 1) is StepRetried.granted
    assert harness.finish(run_id).state is RunState.failed, "the other one still failed"
    assert retry(harness, run_id, 2) is StepRetried.granted
    assert harness.finish(run_id).result == ["left", "right"]
    assert (outside.count("left"), outside.count("right")) == (2, 2)


def test_a_step_in_doubt_is_tried_again_under_the_same_key(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="naive", retries=3)
    def pay() -> str:
        if outside.happened("pay") == 1:
            raise UnknownOutcome("no answer")
        return "paid"

    @function
    async def job() -> str:
        return await pay()

    run_id = harness.enqueue(job)
    assert harness.finish(run_id).state is RunState.parked
    assert retry(harness, run_id, 1) is StepRetried.granted
    assert harness.finish(run_id).result == "paid"


def test_a_late_result_is_taken_in_place_of_another_attempt(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def pay() -> str:
        outside.happened("pay")
        return "paid"

    @function
    async def job() -> str:
        return await pay()

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    with harness.dying_at(CrashPoint.effect_sent):
        harness.worker.run_due()
    harness.take_over()
    harness.worker = harness.new_worker()
    assert harness.finish(run_id).state is RunState.failed, "nobody knows whether it happened"
    with harness.database.write() as unit:
        unit.steps.add_receipt(run_id, 1, 1, pay.name, '"paid, late"')
    assert retry(harness, run_id, 1) is StepRetried.granted
    assert harness.finish(run_id).result == "paid, late"
    assert outside.count("pay") == 1


def test_a_child_that_failed_goes_on_with_its_parent(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def pay() -> str:
        if outside.happened("pay") == 1:
            raise ConnectionError("down")
        return "paid"

    @function(name="retries.child")
    async def child() -> str:
        return await pay()

    @function(name="retries.parent")
    async def parent() -> str:
        return await start(child, "the child")

    run_id = harness.enqueue(parent, new={"max_deliveries": 1})
    with harness.database.read() as unit:
        assert harness.finish(run_id) is not None
    with harness.database.read() as unit:
        (step,) = unit.runs.steps(run_id)
    while harness.get(run_id).state is not RunState.failed:
        harness.pass_to_next_due()
        harness.worker.run_due()
    assert step.awaits_run_id is not None
    assert retry(harness, run_id, 1) is StepRetried.granted
    assert not harness.get(step.awaits_run_id).state.final
    with harness.database.read() as unit:
        assert unit.runs.steps(run_id)[0].state is StepState.waiting
    assert retry(harness, step.awaits_run_id, 1) is StepRetried.live


def test_a_child_that_was_refused_does_not_go_on(harness: EngineHarness) -> None:
    @function(name="retries.refused")
    async def child() -> Refused:
        return Refused("not this one")

    @function(name="retries.asking")
    async def parent() -> object:
        return await start(child, "the refused one")

    run_id = harness.enqueue(parent, new={"max_deliveries": 1})
    assert harness.finish(run_id).state is RunState.failed
    assert retry(harness, run_id, 1) is StepRetried.child_over
