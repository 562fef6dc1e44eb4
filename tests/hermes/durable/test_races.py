"""Promise 6: races and fan-out. Who wins is recorded once, what lost has consumed nothing, and commands side by side
are each made once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from hermes.crash_points import CrashPoint
from hermes.durable import (
    Event,
    UnknownOutcome,
    WaitTimedOut,
    command,
    delay,
    function,
    start,
    wait_for_event,
    when_all,
    when_any,
)
from hermes.model.event import Fired, NewEvent
from hermes.model.run import RunState
from hermes.model.step import StepKind, StepState
from hermes.testing.engine import EngineHarness

HOUR = timedelta(hours=1)


class Payment(BaseModel):
    amount: int


PAID = Event("RACE_PAID", Payment)
CANCELLED = Event("RACE_CANCELLED")


def news(harness: EngineHarness, name: str = "RACE_PAID", payload: str | None = '{"amount":7}') -> Fired:
    return harness.database.commit(lambda unit: unit.events.fire(NewEvent(name, "42", payload), max_kept=100))


def steps(harness: EngineHarness, run_id: str) -> dict[int, Any]:
    with harness.database.read() as unit:
        return {step.seq: step for step in unit.runs.steps(run_id)}


@function
async def paid_in_time(order: str) -> str:
    paid = wait_for_event(PAID, order, forever=True)
    deadline = delay(HOUR)
    if await when_any(paid, deadline) is deadline:
        return "too late"
    return f"paid {(await paid).amount}"


def test_the_event_wins(harness: EngineHarness) -> None:
    run_id = harness.enqueue(paid_in_time, order="42")
    harness.worker.run_due()
    assert harness.get(run_id).reason == "first of step 1 waits for event RACE_PAID, 42, step 2: delay"
    harness.clock.advance(HOUR / 2)
    news(harness)
    harness.worker.run_due()
    assert harness.get(run_id).result == "paid 7"
    assert steps(harness, run_id)[3].result_json == "1"


def test_the_deadline_wins_and_the_event_stays_kept(harness: EngineHarness) -> None:
    run_id = harness.enqueue(paid_in_time, order="42")
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    assert news(harness).kept_until is not None
    harness.worker.run_due()
    assert harness.get(run_id).result == "too late"
    with harness.database.read() as unit:
        assert len(unit.events.find(kept=True)) == 1
        assert unit.events.waits() == []


@pytest.mark.parametrize("late", [timedelta(0), 5 * HOUR])
def test_an_event_in_time_wins_also_when_the_run_goes_on_after_the_deadline(
    harness: EngineHarness, late: timedelta
) -> None:
    run_id = harness.enqueue(paid_in_time, order="42")
    harness.worker.run_due()
    harness.clock.advance(HOUR - timedelta(milliseconds=1))
    assert news(harness).run_id == run_id
    harness.clock.advance(timedelta(milliseconds=1) + late)
    harness.worker.run_due()
    assert harness.get(run_id).result == "paid 7"


def test_of_two_waits_the_first_event_wins_and_the_other_stays_kept(harness: EngineHarness) -> None:
    @function
    async def first() -> str:
        paid, cancelled = wait_for_event(PAID, "42", timeout=HOUR), wait_for_event(CANCELLED, "42", timeout=HOUR)
        won = await when_any(paid, cancelled)
        assert await when_any(paid, cancelled) is not None
        return "cancelled" if won is cancelled else "paid"

    run_id = harness.enqueue(first)
    harness.worker.run_due()
    assert news(harness, "RACE_CANCELLED", None).run_id == run_id
    assert news(harness).kept_until is not None, "the race was over with the first"
    harness.worker.run_due()
    run = harness.get(run_id)
    assert run.result == "cancelled", run


def test_what_lost_may_be_awaited_again(harness: EngineHarness) -> None:
    @function
    async def again() -> list[str]:
        paid, first, second = wait_for_event(PAID, "42", timeout=3 * HOUR), delay(HOUR), delay(2 * HOUR)
        seen = []
        if await when_any(paid, first) is first:
            seen.append("first")
        if await when_any(second, paid) is second:
            seen.append("second")
        seen.append(str((await paid).amount))
        return seen

    run_id = harness.enqueue(again)
    for _ in range(2):
        harness.worker.run_due()
        harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert news(harness).run_id == run_id
    harness.worker.run_due()
    assert harness.get(run_id).result == ["first", "second", "7"]


def test_of_delays_that_are_all_due_the_earliest_wins_then_the_lowest_step(harness: EngineHarness) -> None:
    @function
    async def sorted_out() -> list[int]:
        a, b, c = delay(2 * HOUR), delay(HOUR), delay(HOUR)
        await delay(5 * HOUR)
        order = [a, b, c]
        return [order.index(await when_any(a, b, c)), order.index(await when_any(c, b)), order.index(await when_any(a))]

    run_id = harness.enqueue(sorted_out)
    harness.worker.run_due()
    harness.clock.advance(5 * HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == [1, 1, 0]


def test_the_winner_is_recorded_and_stands_whatever_is_due_later(harness: EngineHarness) -> None:
    @function
    async def decided() -> str:
        long, short = delay(2 * HOUR), delay(HOUR)
        winner = "short" if await when_any(long, short) is short else "long"
        await delay(5 * HOUR)
        return winner

    run_id = harness.enqueue(decided)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    with harness.database.write() as unit:  # as if the clock had told otherwise since
        unit.connection.exec_driver_sql(
            "UPDATE steps SET due_at = created_at FROM runs WHERE runs.id = run_id AND seq = 1"
        )
    harness.clock.advance(5 * HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == "short"


def test_a_wait_that_times_out_first_wins_and_raises_when_awaited(harness: EngineHarness) -> None:
    @function
    async def brief() -> str:
        paid, deadline = wait_for_event(PAID, "42", timeout=HOUR), delay(2 * HOUR)
        won = await when_any(paid, deadline)
        try:
            await won
        except WaitTimedOut:
            return "timed out"
        return "?"

    run_id = harness.enqueue(brief)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == "timed out"


def test_fan_out_runs_side_by_side_and_each_once(harness: EngineHarness) -> None:
    together = threading.Barrier(3, timeout=20)

    @command
    def part(number: int) -> int:
        harness.outside.happened("part", number)
        together.wait()
        return number * 10

    @function
    async def whole() -> list[int]:
        found = await when_all(part(1), part(2), part(3))
        await delay(HOUR)
        return list(found)

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == [10, 20, 30]
    assert sorted(harness.outside.about("part")) == [1, 2, 3]


def test_no_more_than_fan_out_at_once(harness: EngineHarness) -> None:
    running, most = [], []

    @command
    def part(number: int) -> int:
        running.append(number)
        most.append(len(running))
        threading.Event().wait(0.005)
        running.remove(number)
        return number

    @function
    async def whole() -> int:
        return sum(await when_all(*[part(number) for number in range(60)]))

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    assert harness.get(run_id).result == sum(range(60))
    assert max(most) <= harness.settings.fan_out


def test_when_all_waits_for_everyone_and_raises_the_failure_of_the_lowest_step(harness: EngineHarness) -> None:
    @command(retries=0)
    def part(number: int) -> int:
        harness.outside.happened("part", number)
        if number > 1:
            raise ValueError(f"part {number}")
        return number

    @function
    async def whole() -> str:
        parts = [part(1), part(2), part(3)]
        try:
            await when_all(*parts)
        except ValueError as exc:
            return f"{exc}; the first is {await parts[0]}"
        return "?"

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    assert harness.get(run_id).result == "part 2; the first is 1"
    assert sorted(harness.outside.about("part")) == [1, 2, 3]


def test_one_that_fails_is_tried_again_while_the_others_stay_done(harness: EngineHarness) -> None:
    @command
    def part(number: int) -> int:
        if harness.outside.happened(f"part {number}") < 3 and number == 2:
            raise ValueError("not yet")
        return number

    @function
    async def whole() -> int:
        return sum(await when_all(part(1), part(2), part(3)))

    run_id = harness.enqueue(whole)
    run = harness.finish(run_id)
    assert run.result == 6
    assert [harness.outside.count(f"part {number}") for number in (1, 2, 3)] == [1, 3, 1]
    assert run.deliveries == 0


def test_a_deadline_beats_a_slow_command_whose_result_is_kept_as_a_receipt(harness: EngineHarness) -> None:
    go, done = threading.Event(), threading.Event()

    @command(timeout=timedelta(seconds=30))
    def slow() -> str:
        harness.outside.happened("slow")
        harness.clock.advance(HOUR)
        go.wait(20)
        done.set()
        return "at last"

    @function
    async def impatient() -> str:
        asked, deadline = slow(), delay(HOUR)
        if await when_any(asked, deadline) is deadline:
            go.set()
            await delay(HOUR)
            return f"late: {await asked}"
        return await asked

    run_id = harness.enqueue(impatient)
    harness.worker.run_due()
    assert steps(harness, run_id)[1].state is StepState.lost
    assert done.wait(20)
    _eventually_a_receipt(harness, run_id)
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == "late: at last"
    assert harness.outside.count("slow") == 1


def _eventually_a_receipt(harness: EngineHarness, run_id: str) -> None:
    for _ in range(2000):
        with harness.database.read() as unit:
            if unit.steps.receipt(run_id, 1) is not None:
                return
        threading.Event().wait(0.005)
    raise AssertionError("no receipt")


def test_a_command_that_lost_is_not_tried_again(harness: EngineHarness) -> None:
    @command
    def failing() -> str:
        harness.outside.happened("failing")
        raise ValueError("no")

    @function
    async def impatient() -> str:
        asked, deadline = failing(), delay(timedelta(milliseconds=1))
        assert await when_any(deadline, asked) is deadline
        await delay(HOUR)
        try:
            return await asked
        except ValueError as exc:
            return f"lost: {exc}"

    run_id = harness.enqueue(impatient)
    run = harness.finish(run_id)
    assert run.result == "lost: no", run
    assert harness.outside.count("failing") == 1


def test_a_command_that_lost_before_it_began_is_not_made(harness: EngineHarness) -> None:
    @command
    def unneeded() -> str:
        harness.outside.happened("unneeded")
        return "made"

    @function
    async def quick() -> str:
        asked, now = unneeded(), delay(timedelta(0))
        return "now" if await when_any(asked, now) is now else "asked"

    run_id = harness.enqueue(quick)
    harness.worker.run_due()
    assert harness.get(run_id).result == "now"
    assert harness.outside.count("unneeded") == 0


def test_a_command_beats_a_wait_that_then_takes_nothing(harness: EngineHarness) -> None:
    @command
    def ask() -> str:
        harness.outside.happened("ask")
        return "answer"

    @function
    async def webhook_or_ask() -> str:
        paid, asked = wait_for_event(PAID, "42", timeout=HOUR), ask()
        return await asked if await when_any(paid, asked) is asked else "paid"

    run_id = harness.enqueue(webhook_or_ask)
    harness.worker.run_due()
    assert harness.get(run_id).result == "answer"
    assert news(harness).kept_until is not None


def test_an_event_beats_a_command_that_is_under_way(harness: EngineHarness) -> None:
    @command
    def ask() -> str:
        harness.outside.happened("ask")
        assert news(harness).run_id is not None
        threading.Event().wait(1.5)
        return "answer"

    @function
    async def webhook_or_ask() -> str:
        paid, asked = wait_for_event(PAID, "42", timeout=HOUR), ask()
        return await asked if await when_any(paid, asked) is asked else f"paid {(await paid).amount}"

    run_id = harness.enqueue(webhook_or_ask)
    harness.worker.run_due()
    assert harness.get(run_id).result == "paid 7"


@pytest.mark.parametrize("point", [CrashPoint.before_intent, CrashPoint.after_intent, CrashPoint.effect_sent])
@pytest.mark.parametrize("hit", [1, 2])
def test_a_fan_out_survives_a_death(harness: EngineHarness, point: CrashPoint, hit: int) -> None:
    made: set[str] = set()

    @command
    def part(number: int) -> int:
        from hermes.durable import current_step

        harness.outside.happened("part", number)
        made.add(current_step().idempotency_key)
        return number

    @function
    async def whole() -> int:
        return sum(await when_all(*[part(number) for number in range(20)]))

    run_id = harness.enqueue(whole)
    with harness.dying_at(point, hit):
        harness.worker.run_due()
    harness.take_over()
    run = harness.finish(run_id)
    assert run.result == sum(range(20))
    assert len(made) == 20, "one key a step, however often it is sent"


def test_a_naive_command_in_doubt_parks_the_fan_out(harness: EngineHarness) -> None:
    @command(effect="naive")
    def pay() -> None:
        raise UnknownOutcome("the line went dead")

    @command
    def other() -> int:
        return 1

    @function
    async def whole() -> None:
        await when_all(other(), pay())

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    run = harness.get(run_id)
    assert run.state is RunState.parked
    assert "may have happened" in str(run.reason)


def test_children_are_started_together_and_awaited(harness: EngineHarness) -> None:
    @function
    async def child(number: int) -> int:
        await delay(HOUR)
        return number

    @function
    async def parent() -> int:
        return sum(await when_all(*[start(child, f"child {number}", number) for number in range(5)]))

    run_id = harness.enqueue(parent)
    harness.worker.run_due()
    with harness.database.read() as unit:
        assert len(unit.runs.children(run_id)) == 5
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == 10


def test_a_child_races_a_deadline(harness: EngineHarness) -> None:
    @function
    async def child() -> str:
        await delay(2 * HOUR)
        return "done"

    @function
    async def parent() -> str:
        work, deadline = start(child, "the work"), delay(HOUR)
        if await when_any(work, deadline) is deadline:
            return f"slow, but {await work}"
        return await work

    run_id = harness.enqueue(parent)
    assert harness.finish(run_id).result == "slow, but done"


def test_a_child_that_is_never_awaited_runs_all_the_same(harness: EngineHarness) -> None:
    @function
    async def child() -> None:
        harness.outside.happened("child")

    @function
    async def parent() -> None:
        start(child, "aside")

    harness.enqueue(parent)
    harness.worker.run_due()
    assert harness.outside.count("child") == 1


def test_a_key_of_another_function_is_an_error(harness: EngineHarness) -> None:
    @function
    async def one() -> None: ...

    @function
    async def two() -> None: ...

    @function
    async def parent() -> str:
        await start(one, "same")
        try:
            await start(two, "same")
        except Exception as exc:  # noqa: BLE001
            return str(exc)
        return "?"

    run_id = harness.enqueue(parent)
    harness.worker.run_due()
    assert "key 'run:default:same' is that of a run of" in str(harness.get(run_id).result)


def test_other_members_are_refused(harness: EngineHarness) -> None:
    @function
    async def inner() -> None: ...

    @function
    async def outer() -> str:
        try:
            await when_any(inner(), delay(HOUR))
        except TypeError as exc:
            return str(exc)
        return "?"

    run_id = harness.enqueue(outer)
    harness.worker.run_due()
    assert "by start()" in str(harness.get(run_id).result)


def test_a_race_that_changes_parks_the_run(harness: EngineHarness) -> None:
    wide = [True]

    @function
    async def job() -> None:
        a, b, c = delay(HOUR), delay(2 * HOUR), delay(3 * HOUR)
        await (when_any(a, b, c) if wide[0] else when_any(a, b))
        await delay(HOUR)

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    wide[0] = False
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    run = harness.get(run_id)
    assert run.state is RunState.parked
    assert "when_any of steps [1, 2, 3], now when_any of steps [1, 2]" in str(run.reason)
    assert [step.kind for step in steps(harness, run_id).values()].count(StepKind.race) == 1
