"""Promise 5: a wait for an event hibernates, and each event is taken by one wait, in order, or kept for one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from hermes.durable import Event, WaitTimedOut, command, delay, fire, function, wait_for_event
from hermes.durable.failure import NotStorable
from hermes.errors import EventIdReused, TooManyKept
from hermes.model.event import Fired, NewEvent
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness


class Payment(BaseModel):
    amount: int


PAID = Event("PAID", Payment)
MOVED = Event("MOVED")
HOUR = timedelta(hours=1)


def news(
    harness: EngineHarness,
    instance_id: str = "42",
    payload: str | None = '{"amount":7}',
    name: str = "PAID",
    **more: object,
) -> Fired:
    max_kept = more.pop("max_kept", 10_000)
    event = NewEvent(name, instance_id, payload, **more)  # type: ignore[arg-type]
    return harness.database.commit(lambda unit: unit.events.fire(event, max_kept=max_kept))


def open_waits(harness: EngineHarness) -> int:
    with harness.database.read() as unit:
        return len(unit.events.waits())


@function
async def pay(order: str) -> int:
    paid = await wait_for_event(PAID, order, timeout=HOUR)
    return paid.amount


def test_a_wait_holds_nothing_and_goes_on_with_the_payload(harness: EngineHarness) -> None:
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    run = harness.get(run_id)
    assert (run.state, run.owner, run.due_at) == (RunState.waiting, None, harness.clock.now() + HOUR)
    assert run.reason == "step 1 waits for event PAID, 42"
    harness.clock.advance(timedelta(minutes=10))
    fired = news(harness)
    assert (fired.run_id, fired.seq, fired.kept_until) == (run_id, 1, None)
    harness.worker.run_due()
    assert harness.get(run_id).result == 7
    assert open_waits(harness) == 0


def test_an_event_that_came_first_is_kept_and_delivered_at_the_wait(harness: EngineHarness) -> None:
    kept = news(harness)
    assert (kept.run_id, kept.kept_until) == (None, harness.clock.now() + timedelta(days=30))
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    assert harness.get(run_id).result == 7


@pytest.mark.parametrize("instance_id", ["4", "421", "42 ", " 42", "٤٢", "42\u200b"])
def test_names_and_ids_match_character_by_character(harness: EngineHarness, instance_id: str) -> None:
    if instance_id.isprintable():
        news(harness, instance_id)
    news(harness, name="paid")
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting


def test_waits_of_one_pair_are_served_in_the_order_they_began(harness: EngineHarness) -> None:
    runs = []
    for number in range(3):
        runs.append(harness.enqueue(pay, order="42", new={"key": f"run {number}"}))
        harness.worker.run_due()
    for amount in (1, 2, 3):
        news(harness, payload=f'{{"amount":{amount}}}')
    harness.worker.run_due()
    assert [harness.get(run).result for run in runs] == [1, 2, 3]


def test_two_fires_are_two_events_and_one_id_is_one(harness: EngineHarness) -> None:
    assert news(harness, event_id="a").duplicate is False
    again = news(harness, event_id="a")
    assert again.duplicate
    assert again.kept_until is not None
    news(harness, event_id="b")
    with pytest.raises(EventIdReused):
        news(harness, event_id="b", payload='{"amount":8}')
    assert news(harness, "43", event_id="a").duplicate is False, "an id is that of its name and instance"
    first, second, third = (harness.enqueue(pay, order="42", new={"key": key}) for key in "xyz")
    harness.worker.run_due()
    states = [harness.get(run).state for run in (first, second, third)]
    assert states == [RunState.succeeded, RunState.succeeded, RunState.waiting]
    assert news(harness, event_id="a").duplicate, "also once it is taken"
    assert harness.get(third).state is RunState.waiting


def test_a_wait_times_out_once_and_for_ever(harness: EngineHarness) -> None:
    @function
    async def patient(order: str) -> str:
        try:
            await wait_for_event(PAID, order, timeout=HOUR)
        except WaitTimedOut as exc:
            harness.outside.happened("timed out")
            await delay(HOUR)
            return str(exc)
        return "paid"

    run_id = harness.enqueue(patient, order="42")
    harness.worker.run_due()
    harness.clock.advance(HOUR - timedelta(seconds=1))
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    harness.clock.advance(timedelta(seconds=1))
    late = news(harness)
    assert late.kept_until is not None, "at the deadline the wait takes nothing any more, leased or not"
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == "no event PAID came for 42 in time"
    assert harness.outside.count("timed out") == 2, "once, and at its replay"
    assert open_waits(harness) == 0


def test_an_event_is_only_taken_by_a_wait_that_is_awaited_now(harness: EngineHarness) -> None:
    @function
    async def later(order: str) -> int:
        wait = wait_for_event(PAID, order, timeout=3 * HOUR)
        await delay(HOUR)
        return (await wait).amount

    run_id = harness.enqueue(later, order="42")
    harness.worker.run_due()
    assert news(harness).run_id is None
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(run_id).result == 7


def test_an_event_that_expired_is_not_taken(harness: EngineHarness) -> None:
    news(harness, ttl=HOUR)
    harness.clock.advance(HOUR)
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    news(harness, "another")
    harness.clock.advance(timedelta(minutes=1))
    with harness.database.write() as unit:
        assert unit.events.prune(10) == 1
        assert [event.instance_id for event in unit.events.find()] == ["another"]


def test_a_payload_of_another_shape_is_raised_at_the_await(harness: EngineHarness) -> None:
    @function
    async def careful(order: str) -> str:
        try:
            await wait_for_event(PAID, order, timeout=HOUR)
        except NotStorable as exc:
            return str(exc)
        return "paid"

    news(harness, payload='{"amount":"much"}')
    run_id = harness.enqueue(careful, order="42")
    harness.worker.run_due()
    assert "the payload of event 'PAID'" in str(harness.get(run_id).result)


def test_a_run_fires_once_however_often_it_is_replayed(harness: EngineHarness) -> None:
    @function
    async def tell(order: str) -> None:
        await fire(PAID, order, Payment(amount=5))
        await delay(HOUR)
        await fire(MOVED, order)

    waiter = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    teller = harness.enqueue(tell, order="42")
    harness.worker.run_due()
    assert harness.get(waiter).result == 5
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    assert harness.get(teller).state is RunState.succeeded
    with harness.database.read() as unit:
        assert [(event.name, event.fired_by) for event in unit.events.find()] == [
            ("MOVED", f"run {teller}"),
            ("PAID", f"run {teller}"),
        ]


def test_a_run_that_is_cancelled_waits_no_more(harness: EngineHarness) -> None:
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    with harness.database.write() as unit:
        assert unit.runs.cancel(run_id, "enough")
    assert open_waits(harness) == 0
    assert news(harness).kept_until is not None


def test_kept_events_are_bounded(harness: EngineHarness) -> None:
    for _ in range(3):
        news(harness, max_kept=3)
    with pytest.raises(TooManyKept):
        news(harness, max_kept=3)
    news(harness, "another", max_kept=3)
    run_id = harness.enqueue(pay, order="42")
    harness.worker.run_due()
    assert harness.get(run_id).result == 7
    news(harness, max_kept=3)


def test_an_instance_id_that_changes_between_replays_parks_the_run(harness: EngineHarness) -> None:
    made_up = iter("abc")

    @function
    async def sloppy() -> None:
        await wait_for_event(PAID, next(made_up), timeout=HOUR)

    run_id = harness.enqueue(sloppy)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    run = harness.get(run_id)
    assert run.state is RunState.parked
    assert "recorded event PAID for a, now event PAID for b" in str(run.reason)
    assert open_waits(harness) == 0


def test_a_wait_says_how_long(harness: EngineHarness) -> None:
    with pytest.raises(TypeError, match="forever"):
        wait_for_event(PAID, "42")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="forever"):
        wait_for_event(PAID, "42", timeout=HOUR, forever=True)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="empty"):
        wait_for_event(PAID, " ", timeout=HOUR)


def test_a_command_cannot_wait(harness: EngineHarness) -> None:
    @command(retries=0)
    async def sleeper() -> None:
        await delay(HOUR)

    @function
    async def job() -> str:
        try:
            await sleeper()
        except RuntimeError as exc:
            return str(exc)
        return "slept"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert "delay() is for durable functions" in str(harness.get(run_id).result)
