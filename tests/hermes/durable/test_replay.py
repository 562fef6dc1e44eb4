"""Promise 1: a function is replayed from its recorded steps; what is recorded never runs again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import command, delay, function, now, random, uuid
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness


def test_commands_run_once_and_their_results_reach_the_function(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def double(number: int) -> int:
        outside.happened("double", number)
        return number * 2

    @command
    async def spell(number: int) -> str:
        outside.happened("spell", number)
        return f"<{number}>"

    @function
    async def job(number: int) -> str:
        return await spell(await double(await double(number)))

    run = harness.run(job, number=3)

    assert (run.state, run.result) == (RunState.succeeded, "<12>")
    assert outside.about("double") == [3, 6]
    assert outside.count("spell") == 1


@pytest.mark.parametrize(
    ("point", "hit"),
    [(CrashPoint.before_intent, 3), (CrashPoint.result_recorded, 1), (CrashPoint.result_recorded, 2)],
)
def test_a_command_whose_result_is_recorded_never_runs_again(
    harness: EngineHarness, point: CrashPoint, hit: int
) -> None:
    outside = harness.outside

    @command
    def act(step: int) -> int:
        outside.happened(f"act {step}")
        return step

    @function
    async def job() -> list[int]:
        return [await act(step) for step in range(4)]

    run_id = harness.enqueue(job)
    with harness.dying_at(point, hit):
        harness.worker.run_due()
    assert harness.take_over() == [run_id]

    assert harness.finish(run_id).result == [0, 1, 2, 3]
    assert [outside.count(f"act {step}") for step in range(4)] == [1, 1, 1, 1]


def test_a_death_in_the_middle_of_recording_a_result_leaves_no_torn_state(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act() -> str:
        return f"call {outside.happened('act')}"

    @function
    async def job() -> str:
        return await act()

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.inside_transaction):
        harness.worker.run_due()
    with harness.database.read() as unit:
        (step,) = unit.runs.steps(run_id)
    assert (step.outcome_unknown, step.result_json) == (True, None)
    harness.take_over()

    assert harness.finish(run_id).result == "call 2"


def test_recorded_values_are_the_same_at_every_replay(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="none")
    def keep(told: str) -> str:
        outside.happened("keep", told)
        return told

    @function
    async def job() -> list[str]:
        told = f"{now().isoformat()} {uuid()} {random()}"
        await keep(told)
        await delay(timedelta(hours=1))
        return [told, await keep(told)]

    run = harness.run(job)

    assert run.state is RunState.succeeded
    first, second = outside.about("keep")
    assert first == second
    assert first.startswith(datetime(2026, 1, 5, 9, 0, tzinfo=UTC).isoformat())


def test_what_the_function_gets_is_the_recorded_value_from_the_first_time_on(harness: EngineHarness) -> None:
    @command
    def pairs() -> dict[int, tuple[int, ...]]:
        return {1: (1, 2)}

    @command
    def untyped():  # type: ignore[no-untyped-def]
        return (1, {"a": datetime(2026, 1, 1, tzinfo=UTC)})

    @function
    async def job() -> list[str]:
        seen = [repr(await pairs()), repr(await untyped())]
        await delay(timedelta(seconds=1))
        return seen

    run = harness.run(job)

    assert run.result == ["{1: (1, 2)}", "[1, {'a': '2026-01-01T00:00:00Z'}]"]


def test_a_key_starts_one_run(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        return "done"

    first = harness.enqueue(job, new={"key": "the-key"})
    second = harness.enqueue(job, new={"key": "the-key"})

    assert first == second
    assert harness.finish(first).duplicates == 1


def test_a_durable_function_may_call_another_within_its_run(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act(name: str) -> str:
        outside.happened(name)
        return name

    @function
    async def inner(name: str) -> str:
        return await act(name) + await act(name)

    @function
    async def outer() -> str:
        return await inner("a") + await inner("b")

    assert harness.run(outer).result == "aabb"
    assert (outside.count("a"), outside.count("b")) == (2, 2)
