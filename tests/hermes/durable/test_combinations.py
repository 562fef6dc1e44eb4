"""What a function may combine in ways nobody had in mind: each still ends, each command is made as often as it says,
and each event is taken by whom it was for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import (
    Event,
    Snooze,
    command,
    continue_as_new,
    current_step,
    delay,
    fire,
    function,
    now,
    patched,
    start,
    wait_for_event,
    when_all,
    when_any,
)
from hermes.errors import TooManyKept, UnknownOutcome
from hermes.model.event import Fired, NewEvent
from hermes.model.run import Run, RunState
from hermes.model.step import Step, StepState
from hermes.ports.runs import Decision
from hermes.testing.engine import EngineHarness

pytestmark = pytest.mark.sqlite_is_enough

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)

NEWS = Event("COMBINED_NEWS", int)
OTHER = Event("COMBINED_OTHER")


def news(harness: EngineHarness, payload: str | None = "7", name: str = "COMBINED_NEWS", max_kept: int = 100) -> Fired:
    return harness.database.commit(lambda unit: unit.events.fire(NewEvent(name, "42", payload), max_kept=max_kept))


def steps(harness: EngineHarness, run_id: str) -> dict[int, Step]:
    with harness.database.read() as unit:
        return {step.seq: step for step in unit.runs.steps(run_id)}


def pass_time(harness: EngineHarness, by: timedelta = timedelta(0)) -> None:
    harness.clock.advance(by)
    harness.worker.run_due()


def ended(harness: EngineHarness, run_id: str) -> Run:
    run = harness.finish(run_id)
    assert run.state.final, (run.state, run.reason, run.crashes, harness.what_happened(run_id))
    assert run.take_overs == 0, harness.what_happened(run_id)
    return run


def eventually_a_receipt(harness: EngineHarness, run_id: str, *seqs: int) -> None:
    """Of each of these steps. A thread that still wants to write one must not outlive the database of its test."""
    for _ in range(2000):
        with harness.database.read() as unit:
            if all(unit.steps.receipt(run_id, seq) is not None for seq in seqs):
                return
        threading.Event().wait(0.005)
    raise AssertionError("no receipt")


# -- one handle in several places


@pytest.mark.parametrize("combine", [when_all, when_any])
def test_a_command_named_twice_is_made_once(harness: EngineHarness, combine: Callable[..., Any]) -> None:
    @command
    def part() -> int:
        return harness.outside.happened("part")

    @function
    async def job() -> Any:
        one = part()
        found = await combine(one, one, delay(timedelta(0)) if combine is when_all else one)
        return list(found)[:2] if combine is when_all else [await found, await one]

    run_id = harness.enqueue(job)
    assert ended(harness, run_id).result == [1, 1]
    assert harness.outside.count("part") == 1


def test_a_handle_awaited_again_gives_the_same_and_does_nothing(harness: EngineHarness) -> None:
    @command
    def part() -> int:
        return harness.outside.happened("part")

    @function
    async def job() -> list[int]:
        one = part()
        found = [await one, await one]
        await delay(HOUR)
        both = await when_all(one, one)
        return [*found, *both, await one]

    run_id = harness.enqueue(job)
    assert ended(harness, run_id).result == [1] * 5
    assert harness.outside.count("part") == 1


def test_two_waits_of_one_pair_take_an_event_each(harness: EngineHarness) -> None:
    @function
    async def both() -> list[int]:
        return list(
            await when_all(
                wait_for_event(NEWS, "42", timeout=HOUR),
                wait_for_event(NEWS, "42", timeout=HOUR),
                wait_for_event(NEWS, "42", timeout=HOUR),
            )
        )

    news(harness, "1")
    run_id = harness.enqueue(both)
    harness.worker.run_due()
    assert news(harness, "2").seq == 2
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    assert news(harness, "3").seq == 3
    assert ended(harness, run_id).result == [1, 2, 3]
    assert news(harness, "4").kept_until is not None


@pytest.mark.parametrize(
    "member",
    [
        lambda: fire(OTHER, "42"),
        lambda: when_all(delay(HOUR), delay(HOUR)),
        lambda: when_any(delay(HOUR), delay(HOUR)),
    ],
    ids=["fire", "when_all", "when_any"],
)
@pytest.mark.parametrize("combine", [when_all, when_any])
def test_what_cannot_take_part_is_refused_and_never_awaited_for_ever(
    harness: EngineHarness, combine: Callable[..., Any], member: Callable[[], Any]
) -> None:
    @function
    async def job() -> None:
        await combine(member(), delay(HOUR))

    run = ended(harness, harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert "takes what commands, delay(), wait_for_event() and start() give" in run.error.message


# -- delays and events


def test_a_delay_that_is_over_at_once_before_a_race_with_an_event(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        await delay(timedelta(0))
        paid, at_once = wait_for_event(NEWS, "42", timeout=HOUR), delay(timedelta(0))
        first = "at once" if await when_any(paid, at_once) is at_once else "paid"
        return f"{first}, {await paid}"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert news(harness).run_id == run_id
    assert ended(harness, run_id).result == "at once, 7"


@pytest.mark.parametrize("along_with", ["fire", "close"])
def test_a_deadline_recorded_along_with_something_else_still_beats_a_slow_command(
    harness: EngineHarness, along_with: str
) -> None:
    """While a command is under way nobody looks for delays in the database again."""
    go = threading.Event()

    @command
    def slow() -> str:
        harness.clock.advance(HOUR)
        go.wait(5)
        return "slow"

    @function
    async def job() -> str:
        deadline = delay(HOUR)
        if along_with == "fire":
            await fire(OTHER, "42")
        else:  # the race is over, and its wait is closed
            await when_any(wait_for_event(NEWS, "42", forever=True), delay(timedelta(0)))
        asked = slow()
        won = await when_any(asked, deadline)
        go.set()
        return "too late" if won is deadline else "in time"

    run_id = harness.enqueue(job)
    assert ended(harness, run_id).result == "too late"
    (slow_seq,) = [seq for seq, step in steps(harness, run_id).items() if step.state is StepState.lost]
    eventually_a_receipt(harness, run_id, slow_seq)


def test_an_event_beats_a_command_also_in_its_second_attempt(harness: EngineHarness) -> None:
    """The wait goes on taking while the next attempt of a command beside it is due."""

    @command
    def ask() -> str:
        if harness.outside.happened("ask") == 2:
            assert news(harness).run_id is not None, "the wait is open"
            threading.Event().wait(1.5)
        raise ConnectionError("not yet")

    @function
    async def job() -> str:
        came, asked = wait_for_event(NEWS, "42", forever=True), ask()
        return f"news {await came}" if await when_any(came, asked) is came else "asked"

    assert ended(harness, harness.enqueue(job)).result == "news 7"
    assert harness.outside.count("ask") == 2


def test_a_wait_that_opens_anew_beside_a_command_that_is_tried_again_has_no_end(harness: EngineHarness) -> None:
    """A resume opens it while the next attempt has its time already: the wait must not be over with that."""

    @command
    def ask() -> str:
        harness.outside.happened("ask")
        raise ConnectionError("not yet")

    @function
    async def job() -> str:
        came, asked = wait_for_event(NEWS, "42", forever=True), ask()
        return f"news {await came}" if await when_any(came, asked) is came else "asked"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    with harness.database.write() as unit:
        assert unit.runs.cancel(run_id, "for now")
    harness.resume(run_id)
    harness.worker.run_due()
    due_at = harness.get(run_id).due_at
    assert due_at is not None
    assert due_at == steps(harness, run_id)[2].due_at
    harness.clock.advance(due_at - harness.clock.now())
    assert news(harness).run_id == run_id, "the wait is open"
    assert ended(harness, run_id).result == "news 7"
    assert harness.outside.count("ask") == 1


def test_an_event_that_was_taken_long_before_a_race_is_as_old_as_it_is(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        deadline, came = delay(HOUR), wait_for_event(NEWS, "42", forever=True)
        other = wait_for_event(OTHER, "42", forever=True)
        await came
        return "deadline" if await when_any(came, other, deadline) is deadline else "event"

    run_id = harness.enqueue(job)
    pass_time(harness)
    harness.clock.advance(2 * HOUR)
    news(harness)
    assert ended(harness, run_id).result == "deadline"


# -- commands that lost


@pytest.mark.parametrize("together", [False, True])
def test_a_command_that_lost_to_a_kept_event_can_be_awaited(harness: EngineHarness, together: bool) -> None:
    @command(timeout=timedelta(minutes=1))
    def ask() -> str:
        harness.outside.happened("ask")
        raise ConnectionError("down")

    @function
    async def job() -> str:
        came, asked = wait_for_event(NEWS, "42", forever=True), ask()
        won = await when_any(came, asked)
        assert won is came
        try:
            await (when_all(asked, delay(SECOND)) if together else asked)
        except ConnectionError as exc:
            return f"lost: {exc}"
        return "?"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    with harness.database.write() as unit:
        assert unit.runs.cancel(run_id, "for now")
    assert news(harness).kept_until is not None
    pass_time(harness, timedelta(minutes=2))
    with harness.database.write() as unit:
        unit.runs.resume(run_id)
    assert ended(harness, run_id).result == "lost: down"
    assert harness.outside.count("ask") == 1


@pytest.mark.parametrize("combine", [when_all, when_any])
def test_a_command_that_lost_and_is_under_way_can_be_awaited_together(
    harness: EngineHarness, combine: Callable[..., Any]
) -> None:
    go = threading.Event()

    @command(timeout=timedelta(minutes=1))
    def slow() -> str:
        harness.outside.happened("slow")
        harness.clock.advance(SECOND)
        go.wait(20)
        return "at last"

    @function
    async def job() -> str:
        asked, deadline = slow(), delay(SECOND)
        assert await when_any(asked, deadline) is deadline
        await combine(asked, delay(HOUR))
        return await asked

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    go.set()
    eventually_a_receipt(harness, run_id, 1)
    assert ended(harness, run_id).result == "at last"
    assert harness.outside.count("slow") == 1


def test_what_a_timed_out_attempt_brings_does_not_end_the_next_one(harness: EngineHarness) -> None:
    """Attempt 1 comes to its end while attempt 2 is under way beside another command."""
    second_began, first_over = threading.Event(), threading.Event()

    @command(timeout=timedelta(seconds=1), effect="none")
    def slow() -> str:
        if current_step().attempt == 1:
            second_began.wait(20)
            first_over.set()
            return "one"
        second_began.set()
        first_over.wait(20)
        threading.Event().wait(0.2)
        return "two"

    @command
    def beside() -> str:
        while not second_began.wait(0.05):
            harness.clock.advance(SECOND)
        first_over.wait(20)
        threading.Event().wait(0.3)
        return "beside"

    @function
    async def job() -> list[str]:
        return list(await when_all(slow(), beside()))

    run_id = harness.enqueue(job)
    assert ended(harness, run_id).result in (["two", "beside"], ["one", "beside"])
    assert steps(harness, run_id)[1].attempts == 2


# -- failures in a fan-out


def test_parts_that_failed_are_all_tried_again_at_a_redelivery_and_by_a_resume(harness: EngineHarness) -> None:
    broken = [True]

    @command(retries=1)
    def part(number: int) -> int:
        harness.outside.happened(f"part {number}")
        if broken[0] and number in (1, 2):
            raise ConnectionError("down")
        return number

    @function
    async def whole() -> int:
        return sum(await when_all(*[part(number) for number in range(5)]))

    run_id = harness.enqueue(whole, new={"max_deliveries": 2})
    assert ended(harness, run_id).state is RunState.failed
    counts = [harness.outside.count(f"part {number}") for number in range(5)]
    assert counts == [1, 4, 4, 1, 1], "two attempts a delivery"
    broken[0] = False
    with harness.database.write() as unit:
        unit.runs.resume(run_id)
    assert ended(harness, run_id).result == 10
    assert [harness.outside.count(f"part {number}") for number in range(5)] == [1, 5, 5, 1, 1]


def test_at_most_once_in_a_fan_out_stays_at_most_once(harness: EngineHarness) -> None:
    @command(retries=0)
    def once() -> None:
        harness.outside.happened("once")
        raise ConnectionError("down")

    @command(retries=0)
    def unstorable() -> int:
        harness.outside.happened("unstorable")
        return object()  # type: ignore[return-value]

    @command(retries=1)
    def more() -> None:
        harness.outside.happened("more")
        raise ConnectionError("down")

    @function
    async def whole() -> None:
        await when_all(once(), more(), unstorable())

    run_id = harness.enqueue(whole, new={"max_deliveries": 3})
    assert ended(harness, run_id).state is RunState.failed
    assert [harness.outside.count(name) for name in ("once", "unstorable", "more")] == [1, 1, 6]


def test_children_that_failed_together_are_all_resumed(harness: EngineHarness) -> None:
    broken = [True]

    @function
    async def child(number: int) -> int:
        if broken[0]:
            raise ConnectionError("down")
        return number

    @function
    async def parent() -> int:
        return sum(await when_all(*[start(child, f"together {number}", number) for number in range(3)]))

    run_id = harness.enqueue(parent, new={"max_deliveries": 1})
    assert ended(harness, run_id).state is RunState.failed
    broken[0] = False
    with harness.database.write() as unit:
        unit.runs.resume(run_id)
    assert ended(harness, run_id).result == 3


@pytest.mark.parametrize("later", ["delay", "now"])
def test_a_failure_before_any_later_step_is_final(harness: EngineHarness, later: str) -> None:
    """Made again it would go well, and the record would tell another story than the code."""

    @command(retries=1)
    def flaky() -> None:
        if harness.outside.happened("flaky") <= 2:
            raise ConnectionError("down")

    @command
    def on() -> None:
        harness.outside.happened("on")

    @function
    async def job() -> None:
        try:
            await flaky()
        except ConnectionError:
            if later == "delay":
                await delay(SECOND)
            else:
                now()
            raise
        await on()

    run = ended(harness, harness.enqueue(job, new={"max_deliveries": 2}))
    assert run.state is RunState.failed, run.reason
    assert (harness.outside.count("flaky"), harness.outside.count("on")) == (2, 0)


def test_a_decision_is_about_the_step_in_doubt_and_no_other(harness: EngineHarness) -> None:
    go, there = threading.Event(), threading.Event()

    @command(effect="naive")
    def pay() -> str:
        harness.outside.happened("pay")
        there.wait(20)
        raise UnknownOutcome("the line went dead")

    @command
    def other() -> str:
        there.set()
        if harness.outside.happened("other") == 1:
            go.wait(20)
            raise ConnectionError("nobody hears of this")
        return "other"

    @function
    async def whole() -> list[str]:
        return list(await when_all(pay(), other()))

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.parked
    go.set()
    with harness.database.write() as unit:
        unit.runs.resume(run_id, decision=Decision.done, result_json='"paid"')
    assert ended(harness, run_id).result == ["paid", "other"]
    assert (harness.outside.count("pay"), harness.outside.count("other")) == (1, 2)


def test_two_steps_in_doubt_are_decided_one_by_one(harness: EngineHarness) -> None:
    @command(effect="naive")
    def pay(to: str) -> str:
        harness.outside.happened("pay", to)
        raise UnknownOutcome("the line went dead")

    @function
    async def whole() -> list[str]:
        return list(await when_all(pay("a"), pay("b")))

    run_id = harness.enqueue(whole)
    harness.worker.run_due()
    parked = harness.get(run_id)
    assert parked.state is RunState.parked
    first = "a" if str(parked.reason).startswith("step 1,") else "b"
    with harness.database.write() as unit:
        unit.runs.resume(run_id, decision=Decision.done, result_json=f'"{first}"')
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.parked, "the other one is in doubt as before"
    second = "b" if first == "a" else "a"
    with harness.database.write() as unit:
        unit.runs.resume(run_id, decision=Decision.done, result_json=f'"{second}"')
    assert ended(harness, run_id).result == ["a", "b"]
    assert harness.outside.count("pay") == 2


# -- fire


def test_a_key_of_another_function_fails_the_run_and_does_not_leave_it_asleep(harness: EngineHarness) -> None:
    @function
    async def one() -> None: ...

    @function
    async def two() -> None: ...

    @function
    async def parent() -> None:
        await start(one, "combined key")
        await start(two, "combined key")

    run = ended(harness, harness.enqueue(parent, new={"max_deliveries": 3}))
    assert (run.state, run.deliveries) == (RunState.failed, 3)


def test_a_run_that_starts_itself_is_told_so_and_does_not_wait_for_its_own_end(harness: EngineHarness) -> None:
    @function
    async def job() -> None:
        await start(job, "itself")

    run = ended(harness, harness.enqueue(job, new={"key": "run:default:itself", "max_deliveries": 1}))
    assert run.error is not None
    assert "wait for its own end" in run.error.message


def test_a_long_history_is_told_of_once(harness: EngineHarness) -> None:
    object.__setattr__(harness.settings, "warn_steps", 3)

    @command
    def part() -> None: ...

    @function
    async def job() -> None:
        for _ in range(5):
            await part()
            await delay(HOUR)

    run_id = harness.enqueue(job)
    ended(harness, run_id)
    with harness.database.read() as unit:
        told = [entry.detail for entry in unit.runs.timeline(run_id) if entry.what == "long history"]
    assert told == [{"steps": 3}]


def test_a_fire_that_is_refused_is_recorded_as_such(harness: EngineHarness) -> None:
    """At its replay there may be room; the function must not go another way for that."""

    @function
    async def job() -> str:
        try:
            await fire(NEWS, "42", 1)
        except TooManyKept:
            await delay(HOUR)
            return "full"
        await delay(2 * HOUR)
        return "fired"

    object.__setattr__(harness.settings, "max_kept", 1)
    try:
        news(harness)
        run_id = harness.enqueue(job)
        harness.worker.run_due()
    finally:
        object.__setattr__(harness.settings, "max_kept", 10_000)
    assert ended(harness, run_id).result == "full"
    with harness.database.read() as unit:
        assert len(unit.events.find(kept=True)) == 1


def test_a_fire_that_nobody_caught_is_made_again_at_the_redelivery(harness: EngineHarness) -> None:
    @function
    async def job() -> None:
        await fire(NEWS, "42", 1)

    object.__setattr__(harness.settings, "max_kept", 1)
    try:
        news(harness)
        run_id = harness.enqueue(job)
        harness.worker.run_due()
        assert harness.get(run_id).deliveries == 1
    finally:
        object.__setattr__(harness.settings, "max_kept", 10_000)
    assert ended(harness, run_id).state is RunState.succeeded
    with harness.database.read() as unit:
        assert len(unit.events.find(kept=True)) == 2


# -- code that changes


def test_patched_in_a_loop_says_the_same_at_every_replay(harness: EngineHarness) -> None:
    @command
    def new(number: int) -> None:
        harness.outside.happened("new", number)

    @function
    async def job() -> int:
        taken = 0
        for number in range(4):
            if patched("loop"):
                await new(number)
                taken += 1
            await delay(HOUR)
        return taken

    assert ended(harness, harness.enqueue(job)).result == 4
    assert harness.outside.about("new") == [0, 1, 2, 3]


def test_an_old_run_stays_with_the_old_way_through_the_whole_loop(harness: EngineHarness) -> None:
    modern = [False]

    @command
    def new(number: int) -> None:
        harness.outside.happened("new", number)

    @function
    async def job() -> int:
        for number in range(4):
            if modern[0] and patched("loop"):
                await new(number)
            await delay(HOUR)
        return 4

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    pass_time(harness, HOUR)
    modern[0] = True
    assert ended(harness, run_id).state is RunState.succeeded
    assert harness.outside.count("new") == 0


def test_one_of_two_patches_may_be_removed(harness: EngineHarness) -> None:
    first_removed, second_said = [False], []

    @command
    def step(name: str) -> None:
        harness.outside.happened("step", name)

    @function
    async def job() -> str:
        if first_removed[0] or patched("first"):
            pass
        second_said.append(patched("second"))
        await (step("new") if second_said[-1] else step("old"))
        await delay(HOUR)
        patched("third")
        if first_removed[0]:
            return "over"
        return Snooze(harness.clock.now() + HOUR, "once more")  # type: ignore[return-value]

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    pass_time(harness, HOUR)
    first_removed[0] = True
    pass_time(harness, HOUR)
    run = harness.get(run_id)
    assert (run.state, run.reason) != (RunState.parked, run.reason), run.reason
    assert harness.outside.about("step") == ["new"]
    assert (run.result, second_said) == ("over", [True, True, True])


def test_a_patch_at_the_very_end_may_be_removed(harness: EngineHarness) -> None:
    removed = [False]

    @function
    async def job() -> Any:
        if removed[0]:
            return "over"
        patched("last")
        return Snooze(harness.clock.now() + HOUR, "wait")

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    removed[0] = True
    assert ended(harness, run_id).result == "over"


# -- histories


def test_a_new_history_starts_clean_and_its_keys_are_new(harness: EngineHarness) -> None:
    go = threading.Event()

    @command(timeout=timedelta(minutes=1))
    def slow() -> None:
        go.wait(20)

    @command
    def send(number: int) -> None:
        harness.outside.happened("key", current_step().idempotency_key)

    @function
    async def child() -> None:
        await delay(5 * HOUR)

    @function
    async def watch(number: int) -> Any:
        start(child, f"child {number}")
        asked, deadline = slow(), delay(timedelta(0))
        assert await when_any(asked, deadline) is deadline
        await when_any(wait_for_event(NEWS, "42", forever=True), delay(HOUR))
        await send(number)
        if number == 2:
            return "over"
        return continue_as_new(watch, number + 1)

    run_id = harness.enqueue(watch, number=0)
    run = ended(harness, run_id)
    assert (run.result, run.continued) == ("over", 2)
    assert len(set(harness.outside.about("key"))) == 3
    # Eight a history. Of the two before nothing is left; of this one all but the command, which lost before it began.
    assert set(steps(harness, run_id)) == set(range(17, 25)) - {18}
    with harness.database.read() as unit:
        assert unit.events.waits() == []
        assert len(unit.runs.children(run_id)) == 3
    go.set()


def test_a_death_between_a_race_and_its_record_decides_it_once(harness: EngineHarness) -> None:
    @command
    def after(won: str) -> str:
        harness.outside.happened("after", won)
        return won

    @function
    async def job() -> str:
        short, long = delay(HOUR), delay(2 * HOUR)
        return await after("short" if await when_any(long, short) is short else "long")

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.clock.advance(5 * HOUR)
    with harness.dying_at(CrashPoint.before_intent):
        harness.worker.run_due()
    harness.take_over()
    run = harness.finish(run_id)
    assert run.result == "short"
    assert harness.outside.about("after") == ["short"]


# -- stops while attempts fly


def test_a_run_asked_to_stop_while_attempts_fly_records_them_and_stops(harness: EngineHarness) -> None:
    asked = threading.Event()

    @command
    def part(number: int) -> int:
        harness.outside.happened("part", number)
        if number == 0:
            with harness.database.write() as unit:
                unit.runs.cancel(run_id, "enough")
            asked.set()
        asked.wait(20)
        return number

    @command
    def after() -> None:
        harness.outside.happened("after")

    @function
    async def job() -> None:
        await when_all(*[part(number) for number in range(3)])
        await after()

    run_id = harness.enqueue(job)
    assert ended(harness, run_id).state is RunState.cancelled
    assert (harness.outside.count("part"), harness.outside.count("after")) == (3, 0)
    assert {step.state for step in steps(harness, run_id).values()} == {StepState.done}


def test_results_of_attempts_that_fly_when_the_lease_goes_are_receipts(harness: EngineHarness) -> None:
    taken, begun = threading.Event(), threading.Barrier(3, timeout=20)

    @command(timeout=timedelta(minutes=5))
    def part(number: int) -> int:
        if harness.outside.happened(f"part {number}") == 1:
            begun.wait()
            if number == 0:
                harness.take_over()
                taken.set()
            taken.wait(20)
        return number

    @function
    async def job() -> int:
        return sum(await when_all(*[part(number) for number in range(3)]))

    run_id = harness.enqueue(job)
    [(leased, held)] = harness.worker.lease(1)
    harness.worker.drive(leased, held)
    eventually_a_receipt(harness, run_id, 1, 2, 3)
    run = harness.finish(run_id)
    assert (run.result, run.take_overs) == (3, 1)
    assert [harness.outside.count(f"part {number}") for number in range(3)] == [1, 1, 1]
