"""Promise 7: effects are at least once, and `effect=` says what an attempt of unknown outcome means."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import Found, UnknownOutcome, command, current_step, function
from hermes.errors import Retryable
from hermes.model.run import RunState
from hermes.ports.runs import Decision, Resumed
from hermes.testing.engine import EngineHarness

UNKNOWN = [CrashPoint.after_intent, CrashPoint.effect_sent]


@pytest.mark.parametrize("point", UNKNOWN)
def test_keyed_sends_the_same_key_again(harness: EngineHarness, point: CrashPoint) -> None:
    outside = harness.outside

    @command
    def pay(amount: int) -> str:
        step = current_step()
        outside.happened("pay", (step.idempotency_key, step.attempt))
        return "paid"

    @function
    async def job() -> str:
        return await pay(5)

    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
    harness.take_over()

    assert harness.finish(run_id).result == "paid"
    expected = [(f"{run_id}:1", 1), (f"{run_id}:1", 2)]
    assert outside.about("pay") == (expected[1:] if point is CrashPoint.after_intent else expected)


def test_keyed_parks_when_its_key_is_too_old(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(key_ttl=timedelta(hours=1))
    def pay() -> str:
        outside.happened("pay")
        return "paid"

    @function
    async def job() -> str:
        return await pay()

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.effect_sent):
        harness.worker.run_due()
    harness.clock.advance(timedelta(hours=2))
    harness.take_over()

    run = harness.finish(run_id)
    assert run.state is RunState.parked
    assert "may have happened" in (run.reason or "")
    assert outside.count("pay") == 1

    with harness.database.write() as unit:
        assert unit.runs.resume(run_id) is Resumed.needs_decision
        assert unit.runs.resume(run_id, decision=Decision.again) is Resumed.resumed
    assert harness.finish(run_id).result == "paid"
    assert outside.count("pay") == 2


def test_every_unknown_attempt_counts(harness: EngineHarness) -> None:
    """A command that is never answered does not go on for ever."""
    outside = harness.outside

    @command(retries=2)
    def silent() -> None:
        outside.happened("silent")
        raise UnknownOutcome("connection lost after sending")

    @function
    async def job() -> str:
        try:
            await silent()
        except UnknownOutcome as exc:
            return str(exc)
        return "?"

    assert harness.run(job).result == "connection lost after sending"
    assert outside.count("silent") == 3


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("point", UNKNOWN)
def test_checkable_looks_first_and_acts_only_if_nothing_is_there(
    harness: EngineHarness, point: CrashPoint, asynchronous: bool
) -> None:
    outside, ledger = harness.outside, {}

    def look(key: str, name: str) -> Found[str] | None:
        outside.happened("look", (key, name))
        return Found(ledger[key]) if key in ledger else None

    async def look_later(key: str, name: str) -> Found[str] | None:
        await asyncio.sleep(0)
        return look(key, name)

    @command(effect="checkable", check=look_later if asynchronous else look)
    def create(name: str) -> str:
        outside.happened("create")
        ledger[current_step().idempotency_key] = f"id of {name}"
        return f"id of {name}"

    @function
    async def job() -> str:
        return await create("page")

    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
    harness.take_over()

    assert harness.finish(run_id).result == "id of page"
    assert outside.count("create") == 1
    assert outside.about("look") == [(f"{run_id}:1", "page")]


def test_a_check_that_cannot_answer_is_asked_again_and_nothing_is_done_meanwhile(harness: EngineHarness) -> None:
    outside = harness.outside

    def look(key: str) -> Found[str] | None:
        if outside.happened("look") < 8:
            raise ConnectionError("down")
        return Found("it is there")

    @command(effect="checkable", check=look, retries=1)
    def create() -> str:
        outside.happened("create")
        raise UnknownOutcome("no answer")

    @function
    async def job() -> str:
        return await create()

    assert harness.run(job).result == "it is there"
    assert (outside.count("create"), outside.count("look")) == (1, 8)


def test_a_checkable_command_is_looked_up_even_after_its_last_attempt(harness: EngineHarness) -> None:
    outside = harness.outside

    def look(key: str) -> Found[str] | None:
        return Found("it is there") if outside.happened("look") == 2 else None

    @command(effect="checkable", check=look, retries=1)
    def create() -> str:
        outside.happened("create")
        raise UnknownOutcome("no answer")

    @function
    async def job() -> str:
        return await create()

    assert harness.run(job).result == "it is there"
    assert (outside.count("create"), outside.count("look")) == (2, 2)


@pytest.mark.parametrize("point", UNKNOWN)
@pytest.mark.parametrize("decision", list(Decision))
def test_naive_parks_for_a_person_who_says_what_happened(
    harness: EngineHarness, point: CrashPoint, decision: Decision
) -> None:
    outside = harness.outside

    @command(effect="naive")
    def post(text: str) -> str:
        outside.happened("post", text)
        return "posted"

    @function
    async def job() -> str:
        return await post("hello")

    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
    harness.take_over()
    run = harness.finish(run_id)
    assert run.state is RunState.parked
    assert "post, may have happened" in (run.reason or "")
    before = outside.count("post")

    with harness.database.write() as unit:
        assert unit.runs.resume(run_id) is Resumed.needs_decision
    assert harness.get(run_id).state is RunState.parked
    with harness.database.write() as unit:
        resumed = unit.runs.resume(run_id, decision=decision, result_json='"as the person saw"')
    assert resumed is Resumed.resumed
    run = harness.finish(run_id)

    assert run.state is RunState.succeeded
    if decision is Decision.done:
        assert (run.result, outside.count("post")) == ("as the person saw", before)
    else:
        assert (run.result, outside.count("post")) == ("posted", before + 1)


def test_naive_retries_only_what_surely_was_not_applied(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="naive")
    def post() -> str:
        if outside.happened("post") < 3:
            raise Retryable("429")
        raise ValueError("who knows")

    @function
    async def job() -> str:
        return await post()

    run = harness.run(job)

    assert run.state is RunState.parked
    assert "who knows" in (run.reason or "")
    assert outside.count("post") == 3


@pytest.mark.parametrize("point", UNKNOWN)
def test_a_read_is_just_made_again(harness: EngineHarness, point: CrashPoint) -> None:
    outside = harness.outside

    @command(effect="none")
    def fetch() -> int:
        return outside.happened("fetch")

    @function
    async def job() -> int:
        return await fetch()

    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
    harness.take_over()
    assert harness.finish(run_id).state is RunState.succeeded


def test_a_result_that_comes_after_the_timeout_is_a_receipt_and_spares_the_next_attempt(
    harness: EngineHarness,
) -> None:
    outside, go_on = harness.outside, threading.Event()

    @command(timeout=timedelta(seconds=0.05))
    def slow() -> str:
        outside.happened("slow")
        go_on.wait(10)
        return "late but there"

    @function
    async def job() -> str:
        return await slow()

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    go_on.set()
    while "receipt" not in harness.what_happened(run_id):
        threading.Event().wait(0.01)
    assert harness.get(run_id).state is RunState.waiting  # a receipt never advances a run

    assert harness.finish(run_id).result == "late but there"
    assert outside.count("slow") == 1


def test_the_same_key_never_carries_other_arguments(harness: EngineHarness) -> None:
    outside, amount = harness.outside, [5]

    @command
    def pay(amount: int) -> str:
        outside.happened("pay", amount)
        return "paid"

    @function
    async def job() -> str:
        return await pay(amount[0])

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.effect_sent):
        harness.worker.run_due()
    amount[0] = 6
    harness.take_over()

    run = harness.finish(run_id)
    assert run.state is RunState.parked
    assert 'recorded arguments {"amount":5}, now {"amount":6}' in (run.reason or "")
    assert outside.about("pay") == [5]


def test_outside_a_run_everything_is_plain_python() -> None:
    @command
    def double(number: int) -> int:
        return number * 2

    @command
    async def spell(number: int) -> str:
        return f"{number} {current_step().attempt}"

    @function
    async def job(number: int) -> str:
        return await spell(await double(number))

    assert asyncio.run(job(2)) == "4 1"
    with pytest.raises(LookupError):
        current_step()
