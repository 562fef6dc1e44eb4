"""Polling an outside system: the waits grow, are capped and are the same at every replay; who never gets a final
answer is handed to a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from hermes.crash_points import CrashPoint
from hermes.durable import Event, PollExhausted, ask_a_person, command, function, poll_until, start
from hermes.durable.polling import JITTER
from hermes.errors import Fatal
from hermes.model.event import Fired, NewEvent
from hermes.model.run import RunState
from hermes.model.step import Step, StepKind
from hermes.ports.runs import Resumed
from hermes.testing.engine import EngineHarness

pytestmark = pytest.mark.sqlite_is_enough

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


class Status(BaseModel):
    state: str

    @property
    def final(self) -> bool:
        return self.state == "settled"


def is_final(status: Status) -> bool:
    return status.final


SETTLED = Event("POLL_SETTLED", Status)


class System:
    """Asked by `ask`, it says "settled" at the `settles`-th ask, and raises what `failing` says for an ask."""

    def __init__(self, harness: EngineHarness, settles: int | None = None) -> None:
        self.settles = settles
        self.failing: Callable[[int], Exception | None] = lambda number: None
        self.asked_at: list[datetime] = []

        @command(effect="none", retries=0)
        def ask(receipt: str) -> Status:
            self.asked_at.append(harness.clock.now())
            failure = self.failing(len(self.asked_at))
            if failure is not None:
                raise failure
            return Status(state="settled" if len(self.asked_at) == self.settles else "working")

        self.ask = ask

    def waits_after(self, began: datetime) -> list[timedelta]:
        return [later - earlier for earlier, later in zip([began, *self.asked_at], self.asked_at, strict=False)]


def steps(harness: EngineHarness, run_id: str) -> list[Step]:
    with harness.database.read() as unit:
        return list(unit.runs.steps(run_id))


def news(harness: EngineHarness, instance_id: str = "r1", payload: str | None = '{"state":"settled"}') -> Fired:
    return harness.database.commit(
        lambda unit: unit.events.fire(NewEvent(SETTLED.name, instance_id, payload), max_kept=10_000)
    )


def resume(harness: EngineHarness, run_id: str) -> Resumed:
    with harness.database.write() as unit:
        return unit.runs.resume(run_id)


def assert_grown(waits: list[timedelta], plain: list[timedelta]) -> None:
    """Each as long as `plain` says, or up to the jitter longer."""
    assert len(waits) == len(plain)
    for wait, least in zip(waits, plain, strict=True):
        assert least <= wait <= least * (1 + JITTER) + timedelta(milliseconds=1), (waits, plain)


def test_the_waits_grow_up_to_the_longest(harness: EngineHarness) -> None:
    system = System(harness, settles=7)

    @function
    async def job() -> str:
        status = await poll_until(system.ask, "r1", until=is_final, every=30 * SECOND, longest=5 * MINUTE, asks=20)
        return status.state

    began = harness.clock.now()
    run = harness.run(job)
    assert (run.state, run.result) == (RunState.succeeded, "settled")
    plain = [30 * SECOND, MINUTE, 2 * MINUTE, 4 * MINUTE, 5 * MINUTE, 5 * MINUTE, 5 * MINUTE]
    assert_grown(system.waits_after(began), plain)


def test_the_jitter_follows_from_run_and_step_alone(harness: EngineHarness) -> None:
    system = System(harness)

    @function
    async def job() -> str:
        try:
            await poll_until(system.ask, "r1", until=is_final, every=MINUTE, factor=1, asks=4, raises=True)
        except PollExhausted:
            return "exhausted"
        return "?"

    with harness.dying_at(CrashPoint.before_intent, hit=3):
        harness.run(job)
    harness.take_over()
    ids = [harness.enqueue(job) for _ in range(2)]
    for run_id in ids:
        harness.finish(run_id)
    lengths = []
    for run_id in ids:
        armed = [step for step in steps(harness, run_id) if step.kind is StepKind.delay]
        lengths.append([step.due_at - step.started_at for step in armed if step.due_at and step.started_at])
    for of_run in lengths:
        assert_grown(of_run, [MINUTE] * 4)
        assert len(set(of_run)) == 4
    assert lengths[0] != lengths[1]


@pytest.mark.parametrize("with_hint", [False, True])
def test_it_takes_two_steps_a_round(harness: EngineHarness, with_hint: bool) -> None:
    system = System(harness, settles=5)
    hint: dict[str, Any] = {"event": SETTLED, "instance_id": "r1"} if with_hint else {}

    @function
    async def job() -> str:
        status = await poll_until(system.ask, "r1", until=is_final, every=MINUTE, deadline=24 * HOUR, **hint)
        return status.state

    run_id = harness.enqueue(job)
    harness.finish(run_id)
    wait = "event" if with_hint else "delay"
    assert [step.kind for step in steps(harness, run_id)] == ["delay", *[wait, "command"] * 5]


def test_the_last_ask_is_made_when_the_deadline_is_over(harness: EngineHarness) -> None:
    system = System(harness)

    @function
    async def job() -> str:
        try:
            await poll_until(system.ask, "r1", until=is_final, every=30 * SECOND, deadline=HOUR, raises=True)
        except PollExhausted as exhausted:
            return f"{exhausted.asked} {exhausted}"
        return "?"

    began = harness.clock.now()
    run = harness.finish(harness.enqueue(job), within=2 * HOUR)
    assert system.asked_at[-1] == began + HOUR
    plain = [timedelta(seconds=30) * 2**grown for grown in range(5)] + [10 * MINUTE] * 4
    waits = system.waits_after(began)
    assert_grown(waits[:-1], plain[: len(waits) - 1])
    assert run.result == f"{len(waits)} no final answer: asked {len(waits)} times in 1:00:00; the last answer: " + (
        "Status(state='working')"
    )


def test_a_deadline_that_is_over_while_nobody_works_leaves_one_ask(harness: EngineHarness) -> None:
    system = System(harness)

    @function
    async def job() -> int:
        try:
            await poll_until(system.ask, "r1", until=is_final, every=MINUTE, deadline=HOUR, raises=True)
        except PollExhausted as exhausted:
            return exhausted.asked
        return 0

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(MINUTE * 2)
    harness.worker.run_due()
    harness.clock.advance(5 * HOUR)
    assert harness.finish(run_id).result == 3, "the one that was due, and one because the deadline is over"


def test_the_last_ask_may_be_answered(harness: EngineHarness) -> None:
    system = System(harness, settles=3)

    @function
    async def job() -> str:
        status = await poll_until(system.ask, "r1", until=is_final, every=MINUTE, asks=3)
        return status.state

    assert harness.run(job).result == "settled"
    assert len(system.asked_at) == 3


@pytest.mark.parametrize("caps", [{"asks": 3}, {"deadline": 3 * MINUTE}])
def test_who_never_gets_an_answer_is_handed_to_a_person_and_resumed_with_the_whole_cap(
    harness: EngineHarness, caps: dict[str, Any]
) -> None:
    system = System(harness)

    @function
    async def job() -> str:
        status = await poll_until(system.ask, "r1", until=is_final, every=MINUTE, factor=1, longest=MINUTE, **caps)
        return status.state

    run_id = harness.enqueue(job)
    parked = harness.finish(run_id)
    assert parked.state is RunState.parked
    assert str(parked.reason).startswith("no final answer: asked 3 times")
    with harness.database.read() as unit:
        assert [run.id for run in unit.runs.list(states=[RunState.parked])] == [run_id]
    harness.clock.advance(24 * HOUR)
    harness.worker.run_due()
    assert len(system.asked_at) == 3, "nobody asks for a parked run"

    system.settles = 6
    resumed_at = harness.clock.now()
    assert resume(harness, run_id) is Resumed.resumed
    assert harness.finish(run_id).result == "settled"
    assert system.asked_at[3] == resumed_at, "at once: a person asked for it"
    assert_grown(system.waits_after(resumed_at)[4:], [MINUTE] * 2)
    assert harness.what_happened(run_id).count("asked a person") == 1


def test_it_is_handed_over_again_when_the_fresh_cap_is_reached_too(harness: EngineHarness) -> None:
    system = System(harness)

    @function
    async def job() -> str:
        return (await poll_until(system.ask, "r1", until=is_final, every=MINUTE, asks=2)).state

    run_id = harness.enqueue(job)
    for budgets in (1, 2, 3):
        assert harness.finish(run_id).state is RunState.parked
        assert len(system.asked_at) == 2 * budgets
        resume(harness, run_id)


def test_a_failure_before_a_person_was_asked_is_not_tried_again_in_its_old_place(harness: EngineHarness) -> None:
    system = System(harness, settles=5)
    system.failing = lambda number: ConnectionError("down") if number < 5 else None

    @command(effect="none", retries=1)
    async def ask(receipt: str) -> Status:
        return await system.ask(receipt)

    @function
    async def job() -> str:
        return (await poll_until(ask, "r1", until=is_final, every=MINUTE, asks=2)).state

    run_id = harness.enqueue(job)
    assert "the last ask failed: ConnectionError: down" in str(harness.finish(run_id).reason)
    resume(harness, run_id)
    assert harness.finish(run_id).result == "settled"


def test_an_ask_that_fails_is_one_without_an_answer(harness: EngineHarness) -> None:
    system = System(harness, settles=4)
    system.failing = lambda number: ConnectionError("down") if number < 4 else None

    @function
    async def job() -> str:
        return (await poll_until(system.ask, "r1", until=is_final, every=MINUTE, asks=4)).state

    assert harness.run(job).result == "settled"
    assert len(system.asked_at) == 4


def test_a_failure_that_time_does_not_cure_is_raised(harness: EngineHarness) -> None:
    system = System(harness)
    system.failing = lambda number: Fatal("this receipt is unknown")

    @function
    async def job() -> str:
        try:
            return (await poll_until(system.ask, "r1", until=is_final, every=MINUTE, asks=4)).state
        except Fatal as exc:
            return str(exc)

    assert harness.run(job).result == "this receipt is unknown"
    assert len(system.asked_at) == 1


def hinted(harness: EngineHarness, system: System) -> str:
    @function
    async def job() -> str:
        status = await poll_until(
            system.ask, "r1", until=is_final, every=10 * MINUTE, deadline=24 * HOUR, event=SETTLED, instance_id="r1"
        )
        return status.state

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    return run_id


def test_a_hint_ends_the_wait_and_the_question_is_asked(harness: EngineHarness) -> None:
    system = System(harness, settles=1)
    run_id = hinted(harness, system)
    harness.clock.advance(SECOND)
    fired_at = harness.clock.now()
    assert news(harness).run_id == run_id
    harness.worker.run_due()
    assert harness.get(run_id).result == "settled"
    assert system.asked_at == [fired_at]


def test_a_hint_that_is_lost_costs_time_alone(harness: EngineHarness) -> None:
    system = System(harness, settles=1)
    run_id = hinted(harness, system)
    began = harness.clock.now()
    assert harness.finish(run_id).result == "settled"
    assert_grown(system.waits_after(began), [10 * MINUTE])


@pytest.mark.parametrize("payload", ['{"state":"settled"}', '{"what":"ever"}', None])
def test_a_hint_proves_nothing_whatever_it_carries(harness: EngineHarness, payload: str | None) -> None:
    system = System(harness, settles=2)
    run_id = hinted(harness, system)
    news(harness, payload=payload)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    assert len(system.asked_at) == 1
    assert harness.finish(run_id).result == "settled"


def test_a_flood_of_hints_makes_it_ask_twice_an_interval_at_most(harness: EngineHarness) -> None:
    system = System(harness)
    run_id = hinted(harness, system)
    began = harness.clock.now()
    while harness.clock.now() < began + HOUR:
        news(harness)
        harness.worker.run_due()
        harness.clock.advance(30 * SECOND)
    assert len(system.asked_at) <= 2 * (HOUR / (10 * MINUTE)) + 1
    assert harness.get(run_id).state is RunState.waiting


def test_a_hint_in_the_last_interval_does_not_end_the_asking_before_the_deadline(harness: EngineHarness) -> None:
    system = System(harness)

    @function
    async def job() -> int:
        try:
            await poll_until(
                system.ask,
                "r1",
                until=is_final,
                every=HOUR,
                deadline=HOUR,
                event=SETTLED,
                instance_id="r1",
                raises=True,
            )
        except PollExhausted as exhausted:
            return exhausted.asked
        return 0

    began = harness.clock.now()
    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(10 * MINUTE)
    news(harness)
    assert harness.finish(run_id).result == 2
    assert system.asked_at == [began + 10 * MINUTE, began + HOUR]


@pytest.mark.parametrize("point", [CrashPoint.after_intent, CrashPoint.effect_sent, CrashPoint.delay_armed])
def test_a_death_in_any_round_changes_no_interval_and_no_cap(harness: EngineHarness, point: CrashPoint) -> None:
    system = System(harness)

    @function
    async def job() -> int:
        try:
            await poll_until(ask, "r1", until=is_final, every=HOUR, longest=HOUR, asks=4, raises=True)
        except PollExhausted as exhausted:
            return exhausted.asked
        return 0

    @command(effect="none")
    async def ask(receipt: str) -> Status:
        return await system.ask(receipt)

    run_id = harness.enqueue(job)
    with harness.dying_at(point, hit=3):
        harness.finish(run_id)
    harness.take_over()
    assert harness.finish(run_id).result == 4
    assert len(system.asked_at) == 4 + (point is CrashPoint.effect_sent)
    armed = [step for step in steps(harness, run_id) if step.kind is StepKind.delay]
    assert_grown([step.due_at - step.started_at for step in armed if step.due_at and step.started_at], [HOUR] * 4)


def test_a_person_is_asked_once_and_the_run_goes_on_from_there(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        harness.outside.happened("before")
        await ask_a_person("look at invoice 42")
        return "went on"

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.run_ended):
        harness.worker.run_due()
    assert (harness.get(run_id).state, harness.get(run_id).reason) == (RunState.parked, "look at invoice 42")
    resume(harness, run_id)
    assert harness.finish(run_id).result == "went on"
    assert harness.outside.count("before") == 2
    assert resume(harness, run_id) is Resumed.not_stopped


def test_a_parent_waits_for_the_person_of_its_child(harness: EngineHarness) -> None:
    @function
    async def child() -> str:
        await ask_a_person("look")
        return "seen"

    @function
    async def parent() -> str:
        return await start(child, "poll-child:1")

    run_id = harness.enqueue(parent)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.parked
    assert "look" in str(harness.get(run_id).reason)
    resume(harness, run_id)
    assert harness.finish(run_id).result == "seen"


def test_outside_a_run_the_intervals_add_up_and_nobody_waits(harness: EngineHarness) -> None:
    system = System(harness, settles=3)

    async def poll(**more: Any) -> Status:
        return await poll_until(system.ask, "r1", until=is_final, every=MINUTE, deadline=HOUR, **more)

    assert asyncio.run(poll()).final
    with pytest.raises(PollExhausted, match="in 1:00:00"):
        asyncio.run(poll(raises=True))
    with pytest.raises(LookupError, match="nobody to ask: no final answer"):
        asyncio.run(poll())


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({}, TypeError, "needs a cap: give asks="),
        ({"asks": 1, "event": SETTLED}, TypeError, "go together"),
        ({"asks": 1, "instance_id": "r1"}, TypeError, "go together"),
        ({"asks": 1, "event": SETTLED, "instance_id": " "}, ValueError, "empty"),
        ({"asks": 0}, ValueError, "asks is 1 or more"),
        ({"deadline": timedelta(0)}, ValueError, "longer than nothing"),
        ({"asks": 1, "every": timedelta(0)}, ValueError, "longer than nothing"),
        ({"asks": 1, "factor": 0.5}, ValueError, "factor 1 or more"),
        ({"asks": 1, "longest": SECOND}, ValueError, "not shorter"),
    ],
)
def test_what_it_cannot_do_is_said_at_the_call(given: dict[str, Any], error: type[Exception], told: str) -> None:
    @command
    def ask() -> Status:
        return Status(state="working")

    with pytest.raises(error, match=told):
        poll_until(ask, until=is_final, **{"every": MINUTE, **given})


def test_it_takes_the_command_and_not_its_handle(harness: EngineHarness) -> None:
    @command
    async def ask(receipt: str) -> Status:
        return Status(state="working")

    handle = ask("r1")
    with pytest.raises(TypeError, match="takes a command and its arguments"):
        poll_until(handle, until=is_final, every=MINUTE, asks=1)  # type: ignore[arg-type]


def test_a_command_cannot_poll(harness: EngineHarness) -> None:
    system = System(harness)

    @command(retries=0)
    async def sleeper() -> None:
        await poll_until(system.ask, "r1", until=is_final, every=MINUTE, asks=1)

    @function
    async def job() -> str:
        try:
            await sleeper()
        except RuntimeError as exc:
            return str(exc)
        return "slept"

    assert "poll_until() is for durable functions" in str(harness.run(job).result)
