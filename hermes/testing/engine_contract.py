"""What any engine under `hermes.durable` promises, as tests that know no engine: only functions, a few levers, and an
outside that counts. DESIGN.md section 5 has the promises and the table of endings; each test is named after its row.

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def engine(self) -> Iterator[Engine]: ...
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, Protocol

import pytest
from pydantic import BaseModel

from hermes.durable import (
    Event,
    Found,
    Refused,
    Snooze,
    UnknownOutcome,
    WaitTimedOut,
    command,
    continue_as_new,
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
from hermes.errors import Retryable
from hermes.model.json import JSON
from hermes.testing.outside import Outside

# A test states what happened, in plain asserts; pytest rewrites them in here too.
# ruff: noqa: S101

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


class Moment(StrEnum):
    """Where a worker may die."""

    before_effect = "before_effect"
    """It is recorded that an attempt begins; nothing has been sent."""
    after_effect = "after_effect"
    """The attempt has done its work; nothing says so yet."""
    after_result = "after_result"
    """The result is recorded."""
    asleep = "asleep"
    """The run hibernates."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as anyone may see it."""

    state: str
    """ready, running, waiting, succeeded, refused, failed, parked or cancelled."""
    result: JSON
    error: str | None
    """Kind and message."""
    reason: str
    deliveries: int
    """Spent."""


class Engine(Protocol):
    """What a test does to an engine. `run` is what `start` gave."""

    outside: Outside

    def start(self, function: Any, key: str, /, *, deliveries: int = 16, **args: JSON) -> str:
        """A run under this key; the one that has it already is joined. Nothing happens before `work`."""
        ...

    def work(self) -> None:
        """Everything that is due now happens."""
        ...

    def advance(self, by: timedelta) -> None:
        """Time passes, and nothing else."""
        ...

    def finish(self, run: str) -> Seen:
        """Work and let time pass until the run is over, or until nothing would ever happen."""
        ...

    def look(self, run: str) -> Seen: ...

    def fire(self, event: Event[Any], instance_id: str, payload: Any = None, *, event_id: str | None = None) -> bool:
        """From outside. Whether a wait has taken it; else it is kept, or was known by its id."""
        ...

    def dying(self, moment: Moment) -> AbstractContextManager[None]:
        """The worker dies in this block when it first comes to that moment."""
        ...

    def replace_worker(self) -> None:
        """Another worker takes over what the dead one, or the one that is working now, has held. May be called by a
        command."""
        ...

    def cancel(self, run: str, reason: str) -> None: ...

    def resume(self, run: str, decision: Literal["done", "again"] | None = None, result: JSON = None) -> None:
        """By a person, who may know what an unknown attempt has done."""
        ...


class Payment(BaseModel):
    amount: int


PAID = Event("CONTRACT_PAID", Payment)
STOPPED: Event[None] = Event("CONTRACT_STOPPED")


def down() -> ConnectionError:
    return ConnectionError("down")


class EngineContract:
    """Take it as a base and give it a fixture `engine`."""

    # -- 1: replayed from what is recorded

    @pytest.mark.parametrize("moment", [Moment.after_result, Moment.asleep])
    def test_1_a_command_whose_result_is_recorded_never_runs_again(self, engine: Engine, moment: Moment) -> None:
        @command
        def first() -> int:
            return engine.outside.happened("first")

        @command
        def second(got: int) -> int:
            engine.outside.happened("second")
            return got + 1

        @function
        async def job() -> int:
            got = await first()
            await delay(HOUR)
            return await second(got)

        run = engine.start(job, "one")
        with engine.dying(moment):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == 2
        assert [engine.outside.count(name) for name in ("first", "second")] == [1, 1]

    def test_1_a_key_is_one_run_however_often_it_is_started(self, engine: Engine) -> None:
        @command
        def only() -> int:
            return engine.outside.happened("only")

        @function
        async def job() -> int:
            return await only()

        first = engine.start(job, "same")
        assert engine.start(job, "same") == first
        assert engine.finish(first).result == 1
        assert engine.start(job, "same") == first, "also when it is over"
        engine.work()
        assert engine.outside.count("only") == 1

    # -- 2: retries of commands

    @pytest.mark.parametrize(("retries", "made"), [(None, 6), (2, 3), (0, 1)])
    def test_2_a_command_is_retried_so_often_then_its_exception_is_at_the_await(
        self, engine: Engine, retries: int | None, made: int
    ) -> None:
        options = {} if retries is None else {"retries": retries}

        @command(**options)  # type: ignore[call-overload, untyped-decorator]
        def failing() -> None:
            engine.outside.happened("failing")
            raise down()

        @command
        def compensate(why: str) -> str:
            engine.outside.happened("compensate")
            return why

        @function
        async def job() -> str:
            try:
                await failing()
            except ConnectionError as exc:
                await delay(HOUR)
                return await compensate(str(exc))
            return "?"

        seen = engine.finish(engine.start(job, "retried"))
        assert (seen.result, seen.deliveries) == ("down", 0)
        assert (engine.outside.count("failing"), engine.outside.count("compensate")) == (made, 1)

    def test_2_retries_survive_the_death_of_the_worker(self, engine: Engine) -> None:
        @command(effect="none", retries=3)
        def failing() -> None:
            engine.outside.happened("failing")
            raise down()

        @function
        async def job() -> str:
            try:
                await failing()
            except ConnectionError:
                return "failed"
            return "?"

        run = engine.start(job, "survives")
        engine.work()
        engine.replace_worker()
        assert engine.outside.count("failing") == 1, "the next attempt is not due yet"
        assert engine.finish(run).result == "failed"
        assert engine.outside.count("failing") == 4

    def test_2_a_death_during_at_most_once_is_an_unknown_outcome(self, engine: Engine) -> None:
        @command(retries=0)
        def once() -> None:
            engine.outside.happened("once")

        @function
        async def job() -> str:
            try:
                await once()
            except UnknownOutcome:
                await delay(HOUR)
                return "unknown"
            return "?"

        run = engine.start(job, "at most once")
        with engine.dying(Moment.after_effect):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == "unknown"
        assert engine.outside.count("once") == 1

    def test_2_a_refusal_of_business_is_a_value_and_not_retried(self, engine: Engine) -> None:
        @command
        def charge() -> str:
            engine.outside.happened("charge")
            return "declined"

        @function
        async def job() -> str:
            return await charge()

        assert engine.finish(engine.start(job, "declined")).result == "declined"
        assert engine.outside.count("charge") == 1

    # -- 3: redelivery of functions

    def test_3_retries_multiply_with_deliveries_and_finished_commands_stay(self, engine: Engine) -> None:
        @command
        def first() -> int:
            return engine.outside.happened("first")

        @command(retries=2)
        def second() -> None:
            engine.outside.happened("second")
            raise down()

        @function
        async def job() -> None:
            await first()
            await second()

        seen = engine.finish(engine.start(job, "multiplied", deliveries=4))
        assert (seen.state, seen.deliveries, seen.error) == ("failed", 4, "ConnectionError: down")
        assert (engine.outside.count("first"), engine.outside.count("second")) == (1, 12)

    def test_3_a_failure_is_final_once_a_later_step_is_recorded(self, engine: Engine) -> None:
        @command(retries=1)
        def charge() -> None:
            engine.outside.happened("charge")
            raise down()

        @command
        def apologise() -> None:
            engine.outside.happened("apologise")

        @function
        async def job() -> None:
            try:
                await charge()
            except ConnectionError:
                await apologise()
                raise

        assert engine.finish(engine.start(job, "final", deliveries=5)).state == "failed"
        assert (engine.outside.count("charge"), engine.outside.count("apologise")) == (2, 1)

    def test_3_a_dead_letter_is_resumed_under_its_key_and_what_is_finished_stays(self, engine: Engine) -> None:
        broken = [True]

        @command
        def good() -> int:
            return engine.outside.happened("good")

        @command(retries=0)
        def once() -> str:
            if engine.outside.happened("once"):
                raise down()
            return "?"

        @command(retries=1)
        def bad(number: int) -> int:
            engine.outside.happened("bad")
            if broken[0]:
                raise down()
            return number

        @function
        async def job() -> int:
            with suppress(ConnectionError):
                await once()
            return await good() + sum(await when_all(bad(1), bad(2)))

        run = engine.start(job, "dead letter", deliveries=2)
        assert engine.finish(run).state == "failed"
        assert engine.outside.count("bad") == 8
        broken[0] = False
        engine.resume(run)
        assert engine.start(job, "dead letter") == run
        assert engine.finish(run).result == 4
        assert [engine.outside.count(name) for name in ("good", "once", "bad")] == [1, 1, 10]

    # -- 4: delays

    def test_4_a_delay_is_never_early_and_survives_a_restart(self, engine: Engine) -> None:
        @function
        async def job() -> str:
            await delay(3 * HOUR)
            return "awake"

        run = engine.start(job, "sleeper")
        engine.work()
        assert engine.look(run).state == "waiting"
        engine.replace_worker()
        engine.advance(3 * HOUR - 2 * MINUTE - SECOND)  # replacing may take a lease
        engine.work()
        assert engine.look(run).state == "waiting"
        engine.advance(2 * MINUTE + SECOND)
        engine.work()
        assert engine.look(run).result == "awake"

    def test_4_a_delay_counts_from_its_call(self, engine: Engine) -> None:
        @function
        async def job() -> str:
            long = delay(2 * HOUR)
            await delay(HOUR)
            await long
            return "awake"

        run = engine.start(job, "two delays")
        for _ in range(2):
            engine.work()
            assert engine.look(run).state == "waiting"
            engine.advance(HOUR)
        engine.work()
        assert engine.look(run).result == "awake"

    def test_4_sleepers_hold_nothing(self, engine: Engine) -> None:
        @function
        async def sleeper(number: int) -> None:
            await delay(HOUR)

        @function
        async def quick() -> str:
            return "done"

        for number in range(40):
            engine.start(sleeper, f"sleeper {number}", number=number)
        engine.work()
        run = engine.start(quick, "quick")
        engine.work()
        assert engine.look(run).result == "done"

    # -- 5: events

    def test_5_a_wait_goes_on_with_the_payload_of_its_event(self, engine: Engine) -> None:
        run = engine.start(_pay, "pay", order="42")
        engine.work()
        assert engine.look(run).state == "waiting"
        assert engine.fire(PAID, "42", Payment(amount=7))
        engine.work()
        assert engine.look(run).result == 7

    def test_5_an_event_that_came_first_is_kept(self, engine: Engine) -> None:
        assert not engine.fire(PAID, "42", Payment(amount=7))
        engine.advance(29 * 24 * HOUR)
        run = engine.start(_pay, "pay", order="42")
        engine.work()
        assert engine.look(run).result == 7

    def test_5_and_not_for_ever(self, engine: Engine) -> None:
        engine.fire(PAID, "42", Payment(amount=7))
        engine.advance(30 * 24 * HOUR)
        run = engine.start(_pay, "pay", order="42")
        engine.work()
        assert engine.look(run).state == "waiting"

    @pytest.mark.parametrize("other", ["4", "421", "42 ", " 42", "\u0664\u0662"])
    def test_5_an_instance_matches_character_by_character(self, engine: Engine, other: str) -> None:
        run = engine.start(_pay, "pay", order="42")
        engine.work()
        assert not engine.fire(PAID, other, Payment(amount=7))
        engine.work()
        assert engine.look(run).state == "waiting"

    def test_5_waits_of_one_pair_are_served_in_order(self, engine: Engine) -> None:
        runs = []
        for number in range(3):
            runs.append(engine.start(_pay, f"pay {number}", order="42"))
            engine.work()
        for amount in (1, 2, 3):
            assert engine.fire(PAID, "42", Payment(amount=amount))
        engine.work()
        assert [engine.look(run).result for run in runs] == [1, 2, 3]

    def test_5_only_a_wait_that_is_awaited_now_takes_an_event(self, engine: Engine) -> None:
        @function
        async def later() -> int:
            wait = wait_for_event(PAID, "42", timeout=3 * HOUR)
            await delay(HOUR)
            return (await wait).amount

        late = engine.start(later, "later")
        engine.work()
        run = engine.start(_pay, "pay", order="42")
        engine.work()
        assert engine.fire(PAID, "42", Payment(amount=1))
        engine.work()
        assert engine.look(run).result == 1
        assert not engine.fire(PAID, "42", Payment(amount=2))
        engine.advance(HOUR)
        engine.work()
        assert engine.look(late).result == 2

    def test_5_two_fires_are_two_events_and_one_id_is_one(self, engine: Engine) -> None:
        for event_id in ("a", "a", "b"):
            engine.fire(PAID, "42", Payment(amount=1), event_id=event_id)
        engine.fire(PAID, "42", Payment(amount=1))
        runs = [engine.start(_pay, f"pay {number}", order="42") for number in range(4)]
        engine.work()
        assert sorted(engine.look(run).state for run in runs) == ["succeeded"] * 3 + ["waiting"]

    def test_5_a_time_out_is_raised_once_and_at_every_replay(self, engine: Engine) -> None:
        @function
        async def patient() -> str:
            try:
                await wait_for_event(PAID, "42", timeout=HOUR)
            except WaitTimedOut:
                await delay(HOUR)
                return "timed out"
            return "paid"

        run = engine.start(patient, "patient")
        engine.work()
        engine.advance(HOUR)
        assert not engine.fire(PAID, "42", Payment(amount=7)), "at the deadline it is too late"
        engine.work()
        engine.advance(HOUR)
        engine.work()
        assert engine.look(run).result == "timed out"

    def test_5_a_run_fires_once_however_often_it_is_replayed(self, engine: Engine) -> None:
        @function
        async def tell() -> None:
            await fire(PAID, "42", Payment(amount=5))
            await delay(HOUR)

        teller = engine.start(tell, "tell")
        assert engine.finish(teller).state == "succeeded"
        runs = [engine.start(_pay, f"pay {number}", order="42") for number in range(2)]
        engine.work()
        assert sorted(engine.look(run).state for run in runs) == ["succeeded", "waiting"]

    # -- 6: races and fan-out

    def test_6_the_earliest_wins_then_the_lowest_step(self, engine: Engine) -> None:
        @function
        async def job() -> list[int]:
            a, b, c = delay(2 * HOUR), delay(HOUR), delay(HOUR)
            await delay(5 * HOUR)
            order = [a, b, c]
            return [order.index(await when_any(a, b, c)), order.index(await when_any(c, b))]

        assert engine.finish(engine.start(job, "earliest")).result == [1, 1]

    @pytest.mark.parametrize("late", [timedelta(0), 5 * HOUR])
    def test_6_an_event_in_time_beats_the_deadline_whenever_the_run_goes_on(
        self, engine: Engine, late: timedelta
    ) -> None:
        run = engine.start(_in_time, "in time", order="42")
        engine.work()
        engine.advance(HOUR - SECOND)
        assert engine.fire(PAID, "42", Payment(amount=7))
        engine.advance(SECOND + late)
        engine.work()
        assert engine.look(run).result == "paid 7"

    def test_6_what_lost_has_consumed_nothing_and_may_be_awaited_again(self, engine: Engine) -> None:
        @function
        async def first() -> list[str]:
            paid, stopped = wait_for_event(PAID, "42", forever=True), wait_for_event(STOPPED, "42", forever=True)
            won = await when_any(paid, stopped)
            return ["stopped" if won is stopped else "paid", str((await paid).amount)]

        run = engine.start(first, "loser")
        engine.work()
        assert engine.fire(STOPPED, "42")
        assert not engine.fire(PAID, "42", Payment(amount=9)), "the race is over: kept"
        engine.work()
        assert engine.look(run).result == ["stopped", "9"]

    def test_6_a_race_is_decided_once(self, engine: Engine) -> None:
        @command
        def after(won: str) -> str:
            engine.outside.happened("after", won)
            return won

        @function
        async def job() -> list[str]:
            paid, deadline = wait_for_event(PAID, "42", forever=True), delay(HOUR)
            won = "deadline" if await when_any(paid, deadline) is deadline else "paid"
            said = [await after(won)]
            await delay(HOUR)
            return [*said, won]

        run = engine.start(job, "decided")
        engine.work()
        engine.advance(HOUR)
        with engine.dying(Moment.before_effect):
            engine.work()
        engine.fire(PAID, "42", Payment(amount=7))
        engine.replace_worker()
        assert engine.finish(run).result == ["deadline", "deadline"]
        assert engine.outside.about("after") == ["deadline"]

    def test_6_a_command_that_lost_is_not_tried_again(self, engine: Engine) -> None:
        @command
        def failing() -> str:
            engine.outside.happened("failing")
            raise down()

        @function
        async def job() -> str:
            asked, deadline = failing(), delay(timedelta(milliseconds=1))
            assert await when_any(deadline, asked) is deadline
            await delay(HOUR)
            try:
                return await asked
            except ConnectionError:
                return "lost"

        assert engine.finish(engine.start(job, "lost")).result == "lost"
        assert engine.outside.count("failing") == 1

    def test_6_the_result_of_a_command_that_lost_is_kept(self, engine: Engine) -> None:
        go = threading.Event()

        @command(timeout=3 * HOUR)  # longer than its race: an attempt whose own time is over has no result to keep
        def slow() -> str:
            engine.outside.happened("slow")
            engine.advance(HOUR)
            go.wait(20)
            return "at last"

        @function
        async def job() -> str:
            asked, deadline = slow(), delay(HOUR)
            assert await when_any(asked, deadline) is deadline
            go.set()
            return await asked

        assert engine.finish(engine.start(job, "slow")).result == "at last"
        assert engine.outside.count("slow") == 1

    def test_6_parts_run_side_by_side_each_as_often_as_it_must(self, engine: Engine) -> None:
        together = threading.Barrier(3, timeout=20)

        @command
        def part(number: int) -> int:
            if engine.outside.happened(f"part {number}") == 1:
                together.wait()
                if number == 2:
                    raise down()
            return number

        @function
        async def whole() -> int:
            return sum(await when_all(part(1), part(2), part(3)))

        assert engine.finish(engine.start(whole, "parts")).result == 6
        assert [engine.outside.count(f"part {number}") for number in (1, 2, 3)] == [1, 2, 1]

    def test_6_when_all_waits_for_all_and_raises_the_failure_of_the_lowest(self, engine: Engine) -> None:
        @command(retries=0)
        def part(number: int) -> int:
            engine.outside.happened("part")
            if number > 1:
                raise ValueError(f"part {number}")
            return number

        @function
        async def whole() -> str:
            parts = [part(1), part(2), part(3)]
            try:
                await when_all(*parts)
            except ValueError as exc:
                return f"{exc}, {await parts[0]}"
            return "?"

        assert engine.finish(engine.start(whole, "failing parts")).result == "part 2, 1"
        assert engine.outside.count("part") == 3

    def test_6_children_are_started_once_and_awaited(self, engine: Engine) -> None:
        @command
        def make(number: int) -> int:
            engine.outside.happened("make")
            return number

        @function
        async def child(number: int) -> int:
            await delay(HOUR)
            return await make(number)

        @function
        async def parent() -> int:
            return sum(await when_all(*[start(child, f"child {number}", number) for number in range(3)]))

        run = engine.start(parent, "parent")
        engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == 3
        assert engine.outside.count("make") == 3

    # -- 7: attempts of unknown outcome

    @pytest.mark.parametrize("moment", [Moment.before_effect, Moment.after_effect])
    def test_7_keyed_sends_the_same_key_again(self, engine: Engine, moment: Moment) -> None:
        @command
        def send(to: str) -> str:
            engine.outside.happened("send", current_step().idempotency_key)
            return to

        @function
        async def job() -> str:
            return await send("a") + await send("b")

        run = engine.start(job, "keyed")
        with engine.dying(moment):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == "ab"
        keys = engine.outside.about("send")
        assert (len(keys), len(set(keys))) == (3 if moment is Moment.after_effect else 2, 2)

    def test_7_checkable_is_looked_up_and_not_made_twice(self, engine: Engine) -> None:
        def look(key: str) -> Found[str] | None:
            return Found("made") if key in engine.outside.about("make") else None

        @command(effect="checkable", check=look)
        def make() -> str:
            engine.outside.happened("make", current_step().idempotency_key)
            return "made"

        @function
        async def job() -> str:
            return await make()

        run = engine.start(job, "checkable")
        with engine.dying(Moment.after_effect):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == "made"
        assert engine.outside.count("make") == 1

    @pytest.mark.parametrize(("decision", "made"), [("done", 1), ("again", 2)])
    def test_7_naive_waits_for_a_person(self, engine: Engine, decision: Literal["done", "again"], made: int) -> None:
        @command(effect="naive")
        def pay() -> str:
            engine.outside.happened("pay")
            return "paid"

        @function
        async def job() -> str:
            return await pay()

        run = engine.start(job, "naive")
        with engine.dying(Moment.after_effect):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).state == "parked"
        engine.resume(run, decision, "paid" if decision == "done" else None)
        assert engine.finish(run).result == "paid"
        assert engine.outside.count("pay") == made

    def test_7_naive_is_tried_again_where_surely_nothing_happened(self, engine: Engine) -> None:
        @command(effect="naive")
        def pay() -> str:
            if engine.outside.happened("pay") == 1:
                raise Retryable("busy")
            return "paid"

        @function
        async def job() -> str:
            return await pay()

        assert engine.finish(engine.start(job, "busy")).result == "paid"
        assert engine.outside.count("pay") == 2

    def test_7_a_read_is_simply_made_again(self, engine: Engine) -> None:
        @command(effect="none")
        def read() -> int:
            return engine.outside.happened("read")

        @function
        async def job() -> int:
            return await read()

        run = engine.start(job, "read")
        with engine.dying(Moment.after_effect):
            engine.work()
        engine.replace_worker()
        assert engine.finish(run).result == 2

    # -- 8: the same again at every replay

    def test_8_time_and_chance_are_recorded(self, engine: Engine) -> None:
        @function
        async def job() -> bool:
            before = [now().isoformat(), str(uuid()), random()]
            engine.outside.happened("values", before)
            await delay(HOUR)
            return True

        assert engine.finish(engine.start(job, "values")).result is True
        first, second = engine.outside.about("values")
        assert first == second

    def test_8_awaiting_anything_else_is_a_clear_error(self, engine: Engine) -> None:
        @function
        async def job() -> None:
            import asyncio

            await asyncio.sleep(0)

        seen = engine.finish(engine.start(job, "foreign", deliveries=1))
        assert seen.state == "failed"
        assert "command" in str(seen.error)

    def test_8_a_command_that_is_never_awaited_is_an_error(self, engine: Engine) -> None:
        @command
        def forgotten() -> None:
            engine.outside.happened("forgotten")

        @function
        async def job() -> None:
            forgotten()

        seen = engine.finish(engine.start(job, "forgotten", deliveries=1))
        assert (seen.state, "never awaited" in str(seen.error)) == ("failed", True)
        assert engine.outside.count("forgotten") == 0

    def test_8_steps_asked_for_while_a_function_unwinds_are_refused(self, engine: Engine) -> None:
        @command
        def clean_up() -> None:
            engine.outside.happened("clean up")

        @function
        async def job() -> None:
            try:
                await delay(HOUR)
            finally:
                await clean_up()

        run = engine.start(job, "unwound")
        engine.work()
        assert engine.outside.count("clean up") == 0
        assert engine.finish(run).state == "succeeded"
        assert engine.outside.count("clean up") == 1

    def test_8_code_changes_under_a_sleeping_run_with_patched(self, engine: Engine) -> None:
        modern = [False]

        @command
        def step(name: str) -> None:
            engine.outside.happened("step", name)

        @function
        async def job() -> None:
            await delay(HOUR)
            await (step("new") if modern[0] and patched("better") else step("old"))
            await delay(HOUR)

        old, between = engine.start(job, "old"), engine.start(job, "between")
        engine.work()
        engine.advance(HOUR)
        engine.work()  # both made the old step and sleep behind it
        modern[0] = True
        young = engine.start(job, "young")
        assert [engine.finish(run).state for run in (old, between, young)] == ["succeeded"] * 3
        assert engine.outside.about("step") == ["old", "old", "new"]

    def test_8_a_history_begins_anew_under_the_same_key(self, engine: Engine) -> None:
        @command
        def send() -> None:
            engine.outside.happened("send", current_step().idempotency_key)

        @function
        async def watch(left: int) -> Any:
            await send()
            await delay(HOUR)
            return continue_as_new(watch, left - 1) if left else "over"

        run = engine.start(watch, "watch", left=3)
        assert engine.finish(run).result == "over"
        assert engine.start(watch, "watch", left=3) == run
        assert len(set(engine.outside.about("send"))) == engine.outside.count("send") == 4

    # -- 9: take-over

    def test_9_another_worker_goes_on_and_what_the_first_brings_late_is_a_receipt(self, engine: Engine) -> None:
        @command
        def work() -> str:
            if engine.outside.happened("work") == 1:
                engine.replace_worker()
            return "done"

        @command
        def after() -> str:
            engine.outside.happened("after")
            return "after"

        @function
        async def job() -> list[str]:
            return [await work(), await after()]

        run = engine.start(job, "taken over")
        assert engine.finish(run).result == ["done", "after"]
        assert (engine.outside.count("work"), engine.outside.count("after")) == (1, 1)

    # -- 10: timeouts

    @pytest.mark.parametrize("sync", [True, False])
    def test_10_an_attempt_past_its_timeout_is_of_unknown_outcome(self, engine: Engine, sync: bool) -> None:
        hang = threading.Event()

        def threaded() -> str:
            if engine.outside.happened("slow") == 1:
                hang.wait(20)
                raise down()
            return "quick"

        async def on_the_loop() -> str:
            import asyncio

            if engine.outside.happened("slow") == 1:
                await asyncio.sleep(20)
            return "quick"

        # Real time: the second attempt must be over in it, on a busy machine too.
        slow: Any = command(name=f"contract.slow.{sync}", timeout=timedelta(milliseconds=500))(
            threaded if sync else on_the_loop
        )

        @function
        async def job() -> str:
            found: str = await slow()
            return found

        assert engine.finish(engine.start(job, "slow")).result == "quick"
        hang.set()
        assert engine.outside.count("slow") == 2

    # -- what an ending means

    def test_ending_returns_a_value(self, engine: Engine) -> None:
        @function
        async def job() -> dict[str, int]:
            return {"sum": 3}

        seen = engine.finish(engine.start(job, "value"))
        assert (seen.state, seen.result, seen.deliveries, seen.error) == ("succeeded", {"sum": 3}, 0, None)

    def test_ending_returns_refused(self, engine: Engine) -> None:
        @function
        async def job() -> Refused:
            engine.outside.happened("job")
            return Refused("no budget")

        seen = engine.finish(engine.start(job, "refused"))
        assert (seen.state, seen.reason, seen.deliveries) == ("refused", "no budget", 0)
        assert engine.outside.count("job") == 1

    def test_ending_returns_snooze(self, engine: Engine) -> None:
        @command
        def part() -> None:
            engine.outside.happened("part")

        @function
        async def job() -> Any:
            await part()
            if engine.outside.happened("job") == 1:
                return Snooze(now() + HOUR, "not today")
            return "done"

        run = engine.start(job, "snooze")
        engine.work()
        seen = engine.look(run)
        assert (seen.state, seen.reason, seen.deliveries) == ("waiting", "not today", 0)
        engine.advance(HOUR - SECOND)
        engine.work()
        assert engine.outside.count("job") == 1

    def test_ending_raises_with_deliveries_left(self, engine: Engine) -> None:
        @function
        async def job() -> str:
            if engine.outside.happened("job") < 3:
                raise ValueError("not yet")
            return "at last"

        run = engine.start(job, "raises")
        engine.work()
        seen = engine.look(run)
        assert (seen.state, seen.deliveries) == ("ready", 1)
        engine.work()
        assert engine.outside.count("job") == 1, "after backoff"
        seen = engine.finish(run)
        assert (seen.result, seen.deliveries, engine.outside.count("job")) == ("at last", 2, 3)

    def test_ending_raises_with_none_left(self, engine: Engine) -> None:
        @function
        async def job() -> None:
            engine.outside.happened("job")
            raise ValueError("never")

        seen = engine.finish(engine.start(job, "never"))
        assert (seen.state, seen.error, seen.deliveries) == ("failed", "ValueError: never", 16)
        assert engine.outside.count("job") == 16

    def test_ending_meets_an_unknown_naive_outcome(self, engine: Engine) -> None:
        @command(effect="naive")
        def pay() -> None:
            engine.outside.happened("pay")
            raise UnknownOutcome("the line went dead")

        @function
        async def job() -> None:
            await pay()

        seen = engine.finish(engine.start(job, "in doubt"))
        assert (seen.state, seen.deliveries, engine.outside.count("pay")) == ("parked", 0, 1)
        assert "may have happened" in seen.reason

    def test_ending_meets_changed_code(self, engine: Engine) -> None:
        changed = [False]

        @command
        def step(name: str) -> None:
            engine.outside.happened(name)

        @function
        async def job() -> None:
            if changed[0]:
                await delay(HOUR)
            await step("a")
            await delay(HOUR)
            await step("b")

        run = engine.start(job, "changed")
        engine.work()
        changed[0] = True
        seen = engine.finish(run)
        assert (seen.state, seen.deliveries) == ("parked", 0)
        assert "step 1: recorded" in seen.reason
        assert (engine.outside.count("a"), engine.outside.count("b")) == (1, 0)

    def test_ending_is_a_poison_crash(self, engine: Engine) -> None:
        @command(effect="none", retries=50)
        def fatal() -> None:
            engine.outside.happened("fatal")

        @function
        async def job() -> None:
            await fatal()

        run = engine.start(job, "poison")
        for _ in range(5):
            with engine.dying(Moment.after_effect):
                engine.finish(run)
            engine.replace_worker()
        seen = engine.finish(run)
        assert (seen.state, seen.deliveries, engine.outside.count("fatal")) == ("parked", 0, 5)

    def test_ending_loses_its_worker(self, engine: Engine) -> None:
        @command
        def part() -> int:
            return engine.outside.happened("part")

        @function
        async def job() -> int:
            await part()
            return await part()

        run = engine.start(job, "lost worker")
        with engine.dying(Moment.after_result):
            engine.work()
        engine.replace_worker()
        seen = engine.finish(run)
        assert (seen.state, seen.result, seen.deliveries) == ("succeeded", 2, 0)

    @pytest.mark.parametrize("when", ["asleep", "at work"])
    def test_ending_is_cancelled_by_a_person(self, engine: Engine, when: str) -> None:
        @command
        def part() -> None:
            engine.outside.happened("part")
            if when == "at work":
                engine.cancel(run, "enough")

        @command
        def after() -> None:
            engine.outside.happened("after")

        @function
        async def job() -> None:
            await part()
            if when == "asleep":
                await wait_for_event(PAID, "42", forever=True)
            await after()

        run = engine.start(job, "cancelled")
        engine.work()
        if when == "asleep":
            engine.cancel(run, "enough")
        seen = engine.finish(run)
        assert (seen.state, seen.reason, seen.deliveries) == ("cancelled", "enough", 0)
        assert (engine.outside.count("part"), engine.outside.count("after")) == (1, 0)
        assert not engine.fire(PAID, "42", Payment(amount=1)), "it waits for nothing any more"


@function
async def _pay(order: str) -> int:
    return (await wait_for_event(PAID, order, timeout=100 * HOUR)).amount


@function
async def _in_time(order: str) -> str:
    paid, deadline = wait_for_event(PAID, order, forever=True), delay(HOUR)
    return "too late" if await when_any(paid, deadline) is deadline else f"paid {(await paid).amount}"
