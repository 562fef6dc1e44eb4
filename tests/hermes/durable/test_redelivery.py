"""Promise 3: an uncaught exception delivers the function again; then it is a dead letter that can be resumed."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import Snooze, command, function
from hermes.model.run import RunState
from hermes.ports.runs import Decision, Resumed
from hermes.testing.engine import EngineHarness


def test_fifteen_redeliveries_then_a_dead_letter_with_error_and_trace(harness: EngineHarness) -> None:
    outside = harness.outside

    @function
    async def job() -> None:
        outside.happened("delivery", harness.clock.now())
        raise RuntimeError("broken \x00 as ever")

    run = harness.run(job)

    assert (run.state, run.deliveries) == (RunState.failed, 16)
    assert outside.count("delivery") == 16
    assert run.error is not None
    assert run.error.trace is not None
    assert (run.error.short_kind, run.error.message) == ("RuntimeError", "broken  as ever")
    assert 'raise RuntimeError("broken' in run.error.trace
    times = outside.about("delivery")
    assert times[1] - times[0] >= timedelta(seconds=5)
    assert all(later - earlier <= timedelta(minutes=20) for earlier, later in itertools.pairwise(times))


def test_finished_commands_are_not_run_again_and_an_exhausted_one_gets_its_retries_afresh(
    harness: EngineHarness,
) -> None:
    outside = harness.outside

    @command
    def first() -> int:
        return outside.happened("first")

    @command(retries=2)
    def second() -> None:
        outside.happened("second")
        raise ConnectionError("down")

    @function
    async def job() -> None:
        await first()
        await second()

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 4}))

    assert (run.state, run.deliveries) == (RunState.failed, 4)
    assert outside.count("first") == 1
    assert outside.count("second") == 3 * 4  # they multiply


def test_a_failure_before_a_later_step_is_final(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=1)
    def charge() -> None:
        outside.happened("charge")
        raise ConnectionError("down")

    @command
    def apologise() -> None:
        outside.happened("apologise")

    @function
    async def job() -> None:
        try:
            await charge()
        except ConnectionError:
            await apologise()
            raise

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 5}))

    assert run.state is RunState.failed
    assert (outside.count("charge"), outside.count("apologise")) == (2, 1)


def test_a_failure_is_final_as_soon_as_a_later_step_has_begun(harness: EngineHarness) -> None:
    """The later step is in doubt and parks; resuming it does not run the failed one again."""
    outside = harness.outside

    @command(retries=1)
    def charge() -> None:
        outside.happened("charge")
        raise ConnectionError("down")

    @command(effect="naive")
    def apologise() -> str:
        outside.happened("apologise")
        raise ValueError("who knows")

    @function
    async def job() -> str:
        try:
            await charge()
        except ConnectionError:
            return await apologise()
        return "charged"

    run_id = harness.enqueue(job)
    assert harness.finish(run_id).state is RunState.parked
    with harness.database.write() as unit:
        unit.runs.resume(run_id, decision=Decision.done, result_json='"sorry"')

    assert harness.finish(run_id).result == "sorry"
    assert (outside.count("charge"), outside.count("apologise")) == (2, 1)


def test_a_take_over_is_no_redelivery_failed_steps_replay_their_failure(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=1)
    def charge() -> None:
        outside.happened("charge")
        raise ConnectionError("down")

    @command
    def apologise() -> str:
        outside.happened("apologise")
        return "sorry"

    @function
    async def job() -> str:
        try:
            await charge()
        except ConnectionError:
            return await apologise()
        return "?"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.pass_to_next_due()
    with harness.dying_at(CrashPoint.before_intent, 2):  # charge failed for the last time, apologise not begun
        harness.worker.run_due()
    harness.take_over()
    run = harness.finish(run_id)

    assert (run.result, run.deliveries, run.take_overs) == ("sorry", 0, 1)
    assert outside.count("charge") == 2


def test_a_dead_letter_is_resumed_by_hand_and_finished_commands_stay_finished(harness: EngineHarness) -> None:
    outside, broken = harness.outside, [True]

    @command
    def first() -> str:
        outside.happened("first")
        return "one"

    @command(retries=0)
    def never_twice() -> str:
        outside.happened("never twice")
        return "two"

    @command(retries=1)
    def third() -> str:
        outside.happened("third")
        if broken[0]:
            raise ConnectionError("down")
        return "three"

    @function
    async def job() -> str:
        return " ".join([await first(), await never_twice(), await third()])

    run_id = harness.enqueue(job, new={"max_deliveries": 2})
    assert harness.finish(run_id).state is RunState.failed
    broken[0] = False
    with harness.database.write() as unit:
        assert unit.runs.resume(run_id) is Resumed.resumed
    with harness.database.write() as unit:
        assert unit.runs.resume(run_id) is Resumed.not_stopped  # pressed twice

    run = harness.finish(run_id)
    assert (run.state, run.result, run.error, run.deliveries) == (RunState.succeeded, "one two three", None, 0)
    assert [outside.count(name) for name in ("first", "never twice", "third")] == [1, 1, 2 * 2 + 1]
    assert "failed" in harness.what_happened(run_id)


def test_a_redelivered_run_waits_held_if_it_says_so(harness: EngineHarness) -> None:
    @function
    async def job() -> None:
        raise ValueError("no")

    run_id = harness.enqueue(job, new={"hold_on_redelivery": True})
    harness.worker.run_due()
    run = harness.get(run_id)
    assert (run.state, run.held, run.deliveries) == (RunState.ready, True, 1)
    harness.clock.advance(timedelta(days=1))
    assert harness.worker.run_due() == 0

    with harness.database.write() as unit:
        assert unit.runs.release_hold(run_id)
    assert harness.worker.run_due() == 1
    assert harness.get(run_id).deliveries == 2


def test_a_snooze_counts_nothing_and_comes_back_when_it_said(harness: EngineHarness) -> None:
    outside = harness.outside

    @function
    async def job() -> str | Snooze:
        if outside.happened("delivery", harness.clock.now()) < 4:
            return Snooze(harness.clock.now() + timedelta(minutes=10), "the shop is closed")
        return "bought"

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    harness.worker.run_due()
    waiting = harness.get(run_id)
    assert (waiting.state, waiting.reason) == (RunState.waiting, "the shop is closed")

    run = harness.finish(run_id)
    assert (run.result, run.deliveries) == ("bought", 0)
    times = outside.about("delivery")
    assert all(later - earlier == timedelta(minutes=10) for earlier, later in itertools.pairwise(times))


def test_a_snooze_into_the_past_does_not_turn_in_circles(harness: EngineHarness) -> None:
    outside = harness.outside

    @function
    async def job() -> Snooze:
        outside.happened("delivery")
        return Snooze(harness.clock.now() - timedelta(days=1), "oops")

    harness.enqueue(job)
    harness.worker.run_due()
    assert outside.count("delivery") == 1


def test_a_snooze_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        Snooze(datetime(2026, 1, 1), "tomorrow")  # noqa: DTZ001


@pytest.mark.parametrize("leave", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_function_raises_its_worker_lives(harness: EngineHarness, leave: type[BaseException]) -> None:
    @function
    async def job() -> None:
        raise leave

    run_id = harness.enqueue(job, new={"max_deliveries": 1})
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.failed
