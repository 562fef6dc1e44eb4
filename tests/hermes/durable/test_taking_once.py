"""An event is taken by the one wait that has it, in the transaction that says who has won; and waits end with their
run, however it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import Event, command, delay, fire, function, wait_for_event, when_all, when_any
from hermes.durable.recorder import Recorder
from hermes.durable.waiting import Waiting
from hermes.errors import StoreUnavailable
from hermes.model.event import Fired, NewEvent
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness

HOUR = timedelta(hours=1)
PAID = Event("ONCE_PAID", int)
STOPPED = Event("ONCE_STOPPED")


def news(harness: EngineHarness, name: str = "ONCE_PAID", payload: str | None = "7") -> Fired:
    return harness.fire(NewEvent(name, "42", payload))


def open_waits(harness: EngineHarness) -> int:
    with harness.database.read() as unit:
        return len(unit.events.waits())


def kept(harness: EngineHarness) -> list[str]:
    with harness.database.read() as unit:
        return [event.name for event in unit.events.find(kept=True)]


def before_closing(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Right before the waits of a decision are closed."""
    close, done = Waiting._close, []

    def and_before(waiting: Waiting, *about: Any) -> None:
        if not done:
            done.append(True)
            do()
        close(waiting, *about)

    monkeypatch.setattr(Waiting, "_close", and_before)


def test_an_event_taken_while_a_command_is_declared_the_winner_has_won(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @command
    def ask() -> str:
        return "asked"

    @function
    async def job() -> str:
        paid, asked = wait_for_event(PAID, "42", forever=True), ask()
        return f"paid {await paid}" if await when_any(paid, asked) is paid else "asked"

    before_closing(monkeypatch, lambda: news(harness) and None)
    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).result == "paid 7"


def test_an_event_taken_in_the_last_moment_does_not_time_out(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @function
    async def job() -> int:
        return (await when_all(wait_for_event(PAID, "42", timeout=HOUR), delay(HOUR)))[0]

    def just_in_time() -> None:
        harness.clock.step_wall(-timedelta(seconds=1))
        assert news(harness).run_id is not None
        harness.clock.step_wall(timedelta(seconds=1))

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    before_closing(monkeypatch, just_in_time)
    harness.worker.run_due()
    assert harness.get(run_id).result == 7


def test_a_race_won_by_a_kept_event_opens_no_other_wait(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, fired = Recorder.write, []

    def and_after(recorder: Recorder, change: Any) -> Any:
        made = write(recorder, change)
        if not fired:
            fired.append(news(harness, "ONCE_STOPPED", None))
        return made

    @function
    async def job() -> str:
        paid, stopped = wait_for_event(PAID, "42", forever=True), wait_for_event(STOPPED, "42", forever=True)
        return "paid" if await when_any(paid, stopped) is paid else "stopped"

    news(harness)
    monkeypatch.setattr(Recorder, "write", and_after)
    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).result == "paid"
    assert kept(harness) == ["ONCE_STOPPED"]


def test_a_fire_whose_commit_was_not_answered_is_one_event(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = harness.database.commit, []

    def unanswered(change: Any) -> Any:
        made = commit(change)
        if kept(harness) and not lost:
            lost.append(True)
            raise StoreUnavailable("nobody knows")
        return made

    @function
    async def job() -> None:
        await fire(PAID, "42", 1)

    run_id = harness.enqueue(job)
    monkeypatch.setattr(harness.database, "commit", unanswered)
    harness.worker.run_due()
    assert lost
    assert harness.get(run_id).state is RunState.succeeded
    assert kept(harness) == ["ONCE_PAID"]


# -- waits end with their run


@command(effect="none", retries=50)
def fatal() -> None: ...


def test_a_poisonous_run_waits_for_nothing_any_more(harness: EngineHarness) -> None:
    @function
    async def job() -> None:
        await when_any(wait_for_event(PAID, "42", forever=True), fatal())

    run_id = harness.enqueue(job)
    for _ in range(5):
        with harness.dying_at(CrashPoint.effect_sent):
            harness.finish(run_id)
        harness.take_over()
    assert harness.get(run_id).state is RunState.parked
    assert open_waits(harness) == 0
    assert news(harness).kept_until is not None


def test_a_run_that_fails_before_it_comes_to_its_wait_again_waits_no_more(harness: EngineHarness) -> None:
    broken = [False]

    @function
    async def job() -> int:
        if broken[0]:
            raise ValueError("a new version")
        return await wait_for_event(PAID, "42", timeout=HOUR)

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(HOUR)
    broken[0] = True
    with harness.database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE waits SET until = NULL")  # as one that waits for ever
    harness.worker.run_due()
    assert (harness.get(run_id).state, open_waits(harness)) == (RunState.ready, 0)
    assert news(harness).kept_until is not None


def test_a_parked_fan_out_takes_no_event_until_it_is_resumed(harness: EngineHarness) -> None:
    there = threading.Event()

    @command(effect="naive")
    def pay() -> None:
        there.wait(20)
        raise ValueError("who knows")

    @function
    async def job() -> int:
        came, _ = await when_all(wait_for_event(PAID, "42", forever=True), pay())
        return came

    there.set()
    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert (harness.get(run_id).state, open_waits(harness)) == (RunState.parked, 0)
    assert news(harness).kept_until is not None
    from hermes.ports.runs import Decision

    harness.resume(run_id, Decision.done)
    harness.worker.run_due()
    assert harness.get(run_id).result == 7


# -- what is held against the record, and what must be awaited


def test_a_fire_for_another_instance_parks_the_run(harness: EngineHarness) -> None:
    instance = ["1"]

    @function
    async def job() -> None:
        await fire(STOPPED, instance[0])
        await delay(HOUR)

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    instance[0] = "2"
    harness.clock.advance(HOUR)
    harness.worker.run_due()
    run = harness.get(run_id)
    assert run.state is RunState.parked
    assert "recorded fire ONCE_STOPPED for 1, now fire ONCE_STOPPED for 2" in str(run.reason)
    assert len(kept(harness)) == 1


@pytest.mark.parametrize("what", ["when_any", "when_all", "fire"])
def test_what_is_asked_for_and_never_awaited_is_an_error(harness: EngineHarness, what: str) -> None:
    @command
    def part() -> None:
        harness.outside.happened("part")

    @function
    async def job() -> None:
        first = part()
        if what == "fire":
            fire(STOPPED, "42")
        else:
            (when_any if what == "when_any" else when_all)(part(), first)
        await first

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert (run.state, what.replace("fire", "ONCE_STOPPED") in run.error.message) == (RunState.failed, True), run.error
    assert "never awaited" in run.error.message


@pytest.mark.parametrize("awaited", ["its first part", "another with that part"])
def test_a_fan_out_is_awaited_by_itself_alone(harness: EngineHarness, awaited: str) -> None:
    """Else its other parts would silently be missing."""

    @command
    def part(number: int) -> int:
        return harness.outside.happened("part", number)

    @function
    async def job() -> None:
        first = part(1)
        when_all(first, part(2))
        if awaited == "its first part":
            await first
        else:
            await when_all(first, part(3))

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert (run.state, "when_all> was called but never awaited" in run.error.message) == (RunState.failed, True)
    assert 2 not in harness.outside.about("part")
