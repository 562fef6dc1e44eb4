"""What authors of durable functions use in their tests: each lever does what it says."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

from hermes.durable import (
    Event,
    Refused,
    WaitTimedOut,
    command,
    current_step,
    delay,
    fire,
    function,
    now,
    patched,
    random,
    start,
    uuid,
    wait_for_event,
    when_all,
    when_any,
)
from hermes.durable.failure import NotStorable
from hermes.model.run import RunState
from hermes.ports.runs import Decision
from hermes.testing.durable import Durable, NeverEnds

HOUR = timedelta(hours=1)


class Payment(BaseModel):
    amount: int


PAID = Event("TESTING_PAID", Payment)
SEEN = Event("TESTING_SEEN")


@command(retries=2)
def charge(order: str) -> Payment:
    raise NotImplementedError("a real card")


@command(effect="naive")
async def send_mail(to: str, text: str) -> None:
    raise NotImplementedError("a real mail")


@command
def count_up(number: int) -> int:
    return number + 1


@function
async def order(number: str) -> str | Refused:
    paid, deadline = wait_for_event(PAID, number, forever=True), delay(3 * HOUR)
    if await when_any(paid, deadline) is deadline:
        await send_mail(number, "too late")
        return Refused("nobody paid")
    return f"paid {(await paid).amount}"


@function
async def charged(number: str) -> Payment:
    return await charge(number)


@function
async def parent(number: int) -> int:
    return sum(await when_all(start(child, f"child {number}", number), count_up(number)))


@function
async def child(number: int) -> int:
    await delay(HOUR)
    return number


def test_a_run_goes_as_far_as_it_comes_and_takes_its_event(durable: Durable) -> None:
    run = durable.start(order, "42")
    assert run.state is RunState.waiting
    assert [(wait.name, wait.instance_id) for wait in run.waits] == [("TESTING_PAID", "42")]
    durable.skip(2 * HOUR)
    fired = durable.fire(PAID, "42", Payment(amount=7))
    assert fired.run_id == run.id
    assert run.result == "paid 7"
    assert run.waits == []


def test_time_is_skipped_and_what_is_due_meanwhile_happens(durable: Durable) -> None:
    mails = durable.stub(send_mail, returns=None)
    run = durable.start(order, "42")
    durable.skip(3 * HOUR - timedelta(seconds=1))
    assert (run.state, mails.count) == (RunState.waiting, 0)
    durable.skip(timedelta(seconds=1))
    assert (run.state, run.reason) == (RunState.refused, "nobody paid")
    assert mails.calls == [(("42", "too late"), {})]


def test_run_goes_to_the_end_through_delays_and_children(durable: Durable) -> None:
    before = durable.clock.now()
    run = durable.run(parent, 4)
    assert run.result == 9
    assert durable.clock.now() - before == HOUR
    assert [step.name.rpartition(".")[2] for step in run.steps] == ["child", "count_up"]


def test_what_never_ends_is_said_with_what_it_waits_for(durable: Durable) -> None:
    @function
    async def patient() -> None:
        await wait_for_event(SEEN, "7", forever=True)

    @function
    async def restless() -> None:
        while True:
            await delay(timedelta(days=50))

    with pytest.raises(NeverEnds, match=r"step 1 waits for event TESTING_SEEN, 7>: nothing will ever wake it"):
        durable.run(patient)
    with pytest.raises(NeverEnds, match="step 8: delay>: not over within 366 days"):
        durable.run(restless)


def test_a_result_comes_back_as_its_annotation_says_and_a_failure_says_what_became_of_it(durable: Durable) -> None:
    durable.stub(charge, returns=Payment(amount=3))
    assert durable.run(charged, "42").result == Payment(amount=3)
    durable.stub(charge, raises=ValueError("no card"))
    run = durable.run(charged, "43")
    assert run.error is not None
    assert (run.state, run.error.message) == (RunState.failed, "no card")
    with pytest.raises(AssertionError, match=r"charged, failed: ValueError: no card> has no result"):
        _ = run.result


def test_a_stub_that_fails_a_few_times_and_what_the_timeline_says(durable: Durable) -> None:
    stub = durable.stub(charge, raises=ConnectionError("down"), times=2, returns=Payment(amount=1))
    run = durable.run(charged, "42")
    assert (run.result.amount, stub.count) == (1, 3)
    assert len(run.happened("attempt", name=charge)) == 3
    assert [entry.step for entry in run.happened("failure")] == [1, 1]
    assert run.happened("attempt", name="charge", attempt=3)
    assert not run.happened("attempt", name="arge")
    assert run.timeline[0].what == "enqueued"


def test_stubs_are_gone_after_the_test_and_keep_the_annotations(durable: Durable) -> None:
    body = charge.call
    durable.stub(charge, returns=Payment(amount=1))
    assert durable.run(charged, "42").result == Payment(amount=1)
    durable.close()
    assert charge.call is body


@pytest.mark.parametrize(("decision", "mails"), [(Decision.done, 1), (Decision.again, 2)])
def test_a_crash_right_after_an_effect(durable: Durable, decision: Decision, mails: int) -> None:
    stub = durable.stub(send_mail, returns=None)
    durable.crash_after(send_mail)
    run = durable.run(order, "42")
    assert run.happened("take-over")
    assert run.state is RunState.parked
    run.resume(decision)
    assert (run.state, stub.count) == (RunState.refused, mails)


def test_a_crash_in_a_fan_out_makes_again_what_was_under_way(durable: Durable) -> None:
    keys = []

    @command
    async def part(number: int) -> int:
        keys.append(current_step().idempotency_key)
        return number

    @function
    async def whole() -> int:
        return sum(await when_all(part(1), part(2)))

    durable.crash_after(part)
    assert durable.run(whole).result == 3
    assert len(set(keys)) == 2 < len(keys)


def test_a_restart_loses_nothing(durable: Durable) -> None:
    run = durable.start(order, "42")
    durable.restart()
    durable.fire("TESTING_PAID", "42", Payment(amount=2))  # type: ignore[call-overload]
    assert run.result == "paid 2"


def test_a_key_is_one_run(durable: Durable) -> None:
    run = durable.start_under("order:42", order, "42")
    assert durable.start_under("order:42", order, "42").id == run.id
    run.cancel("enough")
    assert (run.state, run.reason) == (RunState.cancelled, "enough")
    assert durable.fire(PAID, "42", Payment(amount=2)).kept_until is not None


# -- without a run


def test_everything_may_be_called_in_a_plain_unit_test() -> None:
    """Where there is no run a command just runs, no time passes, and nobody can fire."""

    @function
    async def whole() -> list[object]:
        found: list[object] = [await count_up(1), await start(child, "key", 5)]
        await delay(HOUR)
        await fire(SEEN, "7")
        await fire(PAID, "7", Payment(amount=1))
        found += await when_all(count_up(2), count_up(3))
        first, second = count_up(4), delay(HOUR)
        won = await when_any(first, second)
        found += ["first" if won is first else "second", await first, patched("new")]
        assert now().tzinfo is not None
        assert uuid() != uuid()
        assert 0 <= random() < 1
        try:
            await wait_for_event(PAID, "7", timeout=HOUR)
        except WaitTimedOut as exc:
            found.append(str(exc))
        return found

    assert asyncio.run(whole()) == [2, 5, 3, 4, "first", 5, True, "no event TESTING_PAID came for 7 in time"]


def test_outside_a_run_what_can_never_be_is_said() -> None:
    async def for_ever() -> None:
        await wait_for_event(PAID, "7", forever=True)

    async def of_another_shape() -> None:
        await fire(PAID, "7", "much")  # type: ignore[arg-type]

    async def of_nothing() -> None:
        await when_any()

    async def failing() -> None:
        await when_all(charge("a"), count_up(1))

    with pytest.raises(LookupError, match=r"hermes\.testing\.durable"):
        asyncio.run(for_ever())
    with pytest.raises(NotStorable):
        asyncio.run(of_another_shape())
    with pytest.raises(ValueError, match="would never be over"):
        asyncio.run(of_nothing())
    with pytest.raises(NotImplementedError):
        asyncio.run(failing())


def test_outside_a_run_a_command_is_made_once_when_it_is_awaited_and_not_at_all_without() -> None:
    made = []

    @command
    async def part(number: int) -> int:
        await asyncio.sleep(0)
        made.append(number)
        if number == 3:
            raise ValueError("three")
        return number

    async def whole() -> list[int]:
        first, second, third = part(1), part(2), part(3)
        assert await when_any(first, second) is first
        start(child, "aside", 5)
        for _ in range(2):
            with pytest.raises(ValueError, match="three"):
                await third
        return [await first, await first]

    assert asyncio.run(whole()) == [1, 1]
    assert asyncio.run(part(4)) == 4  # type: ignore[arg-type]
    assert made == [3, 1, 4]


def test_outside_a_run_a_command_has_a_stand_in_for_its_step() -> None:
    @command
    def keyed() -> str:
        return current_step().idempotency_key

    async def whole() -> str:
        return await keyed()

    assert asyncio.run(whole()).startswith("outside-a-run:")
