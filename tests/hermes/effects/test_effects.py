"""Effects: runs of one command under a dedupe key, awaited by a function or queued by anyone."""

from __future__ import annotations

import asyncio

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import command, current_step, function
from hermes.effects import Effect, enqueue, perform
from hermes.model.run import RunKind, RunState
from hermes.ports.runs import Decision, Resumed
from hermes.testing.engine import EngineHarness


def test_an_effect_is_a_run_of_one_command_and_its_result_reaches_the_function(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def notify(who: str) -> str:
        step = current_step()
        outside.happened("notify", (who, step.idempotency_key, step.run_key))
        return f"told {who}"

    @function
    async def job() -> str:
        return await perform(Effect.of(notify, "effect|told ann", "Ann"))

    new = {"object_id": "card-1", "poll_id": "p", "priority": 3.0}
    run = harness.finish(harness.enqueue(job, new=new))

    assert run.result == "told Ann"
    ((who, key, run_key),) = outside.about("notify")
    assert (who, run_key) == ("Ann", "effect|told ann")
    assert key.startswith("hermes-")
    with harness.database.read() as unit:
        (child,) = unit.runs.children(run.id)
        assert unit.runs.steps(run.id)[0].awaits_run_id == child.id
    assert (child.kind, child.state, child.object_id, child.priority) == (
        RunKind.effect,
        RunState.succeeded,
        "card-1",
        3.0,
    )


def test_the_waiting_function_holds_nothing(harness: EngineHarness) -> None:
    @command
    def notify() -> None: ...

    @function
    async def job() -> None:
        await perform(Effect.of(notify, "effect|x"))

    run_id = harness.enqueue(job)
    ((leased, held),) = harness.worker.lease(1)
    harness.worker.drive(leased, held)
    run = harness.get(run_id)
    assert (run.state, run.due_at, run.owner) == (RunState.waiting, None, None)


def test_two_runs_that_ask_for_one_key_make_one_effect(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def notify() -> int:
        return outside.happened("notify")

    @function
    async def job() -> int:
        return await perform(Effect.of(notify, "effect|same"))

    ids = [harness.enqueue(job) for _ in range(3)]
    results = [harness.finish(run_id).result for run_id in ids]
    late = harness.run(job)

    assert (results, late.result) == ([1, 1, 1], 1)
    assert outside.count("notify") == 1
    with harness.database.read() as unit:
        effect = unit.runs.by_key("effect|same")
    assert effect is not None
    assert effect.duplicates == 3


@pytest.mark.parametrize(
    "point", [CrashPoint.before_intent, CrashPoint.after_intent, CrashPoint.result_recorded, CrashPoint.run_ended]
)
@pytest.mark.parametrize("hit", [1, 2])
def test_whoever_dies_the_function_goes_on_and_a_deduping_service_sees_one_key(
    harness: EngineHarness, point: CrashPoint, hit: int
) -> None:
    outside, service = harness.outside, set()

    @command
    def notify() -> str:
        outside.happened("notify")
        service.add(current_step().idempotency_key)
        return "told"

    @command
    def after(told: str) -> str:
        outside.happened("after")
        return told

    @function
    async def job() -> str:
        return await after(await perform(Effect.of(notify, "effect|x")))

    run_id = harness.enqueue(job)
    with harness.dying_at(point, hit):
        harness.worker.run_due()
    harness.take_over()

    assert harness.finish(run_id).result == "told"
    assert len(service) == 1
    assert outside.count("notify") == 1


def test_a_failed_effect_surfaces_like_a_command_and_is_tried_afresh_at_a_redelivery(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=1)
    def notify() -> str:
        if outside.happened("notify") < 6:
            raise ConnectionError("down")
        return "told"

    @function
    async def job() -> str:
        try:
            return await perform(Effect.of(notify, "effect|x"))
        except ConnectionError:
            outside.happened("surfaced")
            raise

    run = harness.run(job)

    assert (run.result, run.deliveries) == ("told", 2)
    assert (outside.count("notify"), outside.count("surfaced")) == (6, 2)


def test_a_failed_effect_that_was_caught_and_followed_by_a_step_is_final(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def notify() -> None:
        outside.happened("notify")
        raise ConnectionError("down")

    @command
    def write_down() -> None:
        outside.happened("write down")

    @function
    async def job() -> None:
        try:
            await perform(Effect.of(notify, "effect|x"))
        except ConnectionError:
            await write_down()
            raise

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 3}))
    assert run.state is RunState.failed
    assert (outside.count("notify"), outside.count("write down")) == (1, 1)


@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("resume", ["function", "effect"])
def test_an_effect_that_needs_a_person_parks_the_function_and_either_may_be_resumed(
    harness: EngineHarness, decision: Decision, resume: str
) -> None:
    outside = harness.outside

    @command(effect="naive")
    def post() -> str:
        outside.happened("post")
        if outside.count("post") == 1:
            raise ValueError("who knows")
        return "posted"

    @function
    async def job() -> str:
        return await perform(Effect.of(post, "effect|x"))

    run_id = harness.enqueue(job)
    run = harness.finish(run_id)
    assert run.state is RunState.parked
    assert "may have happened (who knows)" in (run.reason or "")
    with harness.database.read() as unit:
        (child,) = unit.runs.children(run_id)
    with harness.database.write() as unit:
        resumed_id = run_id if resume == "function" else child.id
        assert unit.runs.resume(resumed_id) is Resumed.needs_decision
    with harness.database.write() as unit:
        assert unit.runs.resume(resumed_id, decision=decision, result_json='"seen"') is Resumed.resumed

    run = harness.finish(run_id)
    assert run.result == ("seen" if decision is Decision.done else "posted")
    assert outside.count("post") == (1 if decision is Decision.done else 2)


def test_cancelling_a_function_cancels_the_effect_it_waits_for_unless_another_waits_too(
    harness: EngineHarness,
) -> None:
    outside = harness.outside

    @command
    def notify() -> None:
        outside.happened("notify")

    @function
    async def job(key: str) -> None:
        await perform(Effect.of(notify, key))

    alone, shared, other = (harness.enqueue(job, key=key) for key in ("effect|a", "effect|b", "effect|b"))
    for _ in range(3):
        ((leased, held),) = harness.worker.lease(1)
        harness.worker.drive(leased, held)
    with harness.database.write() as unit:
        assert unit.runs.cancel(alone, "people win")
        assert unit.runs.cancel(shared, "people win")

    assert harness.finish(other).state is RunState.succeeded
    assert outside.count("notify") == 1
    with harness.database.read() as unit:
        (child,) = unit.runs.children(alone)
    assert child.state is RunState.cancelled


def test_cancelling_a_function_stops_the_retries_of_an_effect_in_flight(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=5)
    def notify() -> None:
        outside.happened("notify")
        with harness.database.write() as unit:
            unit.runs.cancel(run_id, "people win")
        raise ConnectionError("down")

    @function
    async def job() -> None:
        await perform(Effect.of(notify, "effect|x"))

    run_id = harness.enqueue(job)
    assert harness.finish(run_id).state is RunState.cancelled
    with harness.database.read() as unit:
        (child,) = unit.runs.children(run_id)
    assert harness.finish(child.id).state is RunState.cancelled
    assert outside.count("notify") == 1


def test_changed_keys_are_a_difference_from_the_record(harness: EngineHarness) -> None:
    key = ["effect|a"]

    @command
    def notify() -> str:
        return "told"

    @function
    async def job() -> str:
        return await perform(Effect.of(notify, key[0]))

    run_id = harness.enqueue(job)
    ((leased, held),) = harness.worker.lease(1)
    harness.worker.drive(leased, held)
    key[0] = "effect|b"
    run = harness.finish(run_id)
    assert run.state is RunState.parked
    assert "under effect|a, now " in (run.reason or "")
    assert (run.reason or "").endswith("under effect|b")
    with harness.database.read() as unit:
        assert unit.runs.by_key("effect|b") is None


def test_a_unit_of_work_queues_an_effect_with_what_caused_it(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def notify(who: str) -> None:
        outside.happened("notify", who)

    effect = Effect.of(notify, "effect|x", who="Ann")

    def queue_and_give_up() -> None:
        with harness.database.write() as unit:
            enqueue(unit, effect)
            raise ValueError("the cause is rolled back")

    with pytest.raises(ValueError, match="rolled back"):
        queue_and_give_up()
    assert harness.worker.run_due() == 0
    with harness.database.write() as unit:
        run_id, created = enqueue(unit, effect, poll_id="p")
        assert enqueue(unit, effect) == (run_id, False)
    assert created
    assert harness.finish(run_id).poll_id == "p"
    assert outside.about("notify") == ["Ann"]


def test_a_queued_effect_is_redelivered_like_any_run(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=1)
    def notify() -> None:
        if outside.happened("notify") < 4:
            raise ConnectionError("down")

    with harness.database.write() as unit:
        run_id, _ = enqueue(unit, Effect.of(notify, "effect|x"))
    run = harness.finish(run_id)
    assert (run.state, run.deliveries) == (RunState.succeeded, 1)


def test_outside_a_run_an_effect_is_its_command() -> None:
    @command
    def notify(who: str) -> str:
        return f"told {who}"

    async def plain() -> str:
        return await perform(Effect.of(notify, "effect|x", "Ann"))

    assert asyncio.run(plain()) == "told Ann"
