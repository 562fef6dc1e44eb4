"""Promise 2: retries of a command, unseen by the function, then its exception at the await."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import CommandFailed, UnknownOutcome, command, function
from hermes.errors import Retryable
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness


def test_five_retries_make_six_executions_and_then_the_exception_surfaces(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def charge() -> None:
        raise ValueError(f"no, for the {outside.happened('charge')}th time")

    @command
    def compensate(why: str) -> str:
        outside.happened("compensate")
        return f"compensated: {why}"

    @function
    async def job() -> str:
        try:
            await charge()
        except ValueError as exc:
            return await compensate(str(exc))
        return "charged"

    run = harness.run(job)

    assert run.result == "compensated: no, for the 6th time"
    assert (outside.count("charge"), outside.count("compensate")) == (6, 1)
    assert run.deliveries == 0


def test_a_command_that_recovers_is_not_noticed_by_the_function(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=2)
    def flaky() -> str:
        if outside.happened("flaky") < 3:
            raise ConnectionError("not yet")
        return "at last"

    @function
    async def job() -> str:
        outside.happened("driven")
        return await flaky()

    assert harness.run(job).result == "at last"
    assert outside.count("flaky") == 3


def test_retries_back_off_and_hold_nothing_meanwhile(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=3)
    def flaky() -> None:
        outside.happened("flaky", harness.clock.now())
        raise ConnectionError("down")

    @function
    async def job() -> None:
        await flaky()

    run_id = harness.enqueue(job, new={"place_group": "g", "max_deliveries": 1})
    with harness.database.write() as unit:
        unit.places.set_places("g", 1)
    harness.worker.run_due()
    waiting = harness.get(run_id)
    assert (waiting.state, waiting.owner, waiting.lease_until) == (RunState.waiting, None, None)
    with harness.database.read() as unit:
        assert unit.places.free_places("g") == 1

    assert harness.finish(run_id).state is RunState.failed
    times = outside.about("flaky")
    waits = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
    assert len(waits) == 3
    for wait, plain in zip(waits, [1, 2, 4], strict=True):
        assert plain <= wait <= plain * 1.25


def test_retry_after_is_honoured_in_full(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(effect="none")
    def limited() -> str:
        if outside.happened("limited", harness.clock.now()) == 1:
            raise Retryable("slow down", retry_after=460)
        return "ok"

    @function
    async def job() -> str:
        return await limited()

    assert harness.run(job).result == "ok"
    first, second = outside.about("limited")
    assert second - first >= timedelta(seconds=460)


@pytest.mark.parametrize("asked", [0, -5, float("nan"), float("inf"), float("-inf"), 1e30])
def test_an_odd_retry_after_harms_nobody(harness: EngineHarness, asked: float) -> None:
    outside = harness.outside

    @command(effect="none")
    def limited() -> str:
        if outside.happened("limited") == 1:
            raise Retryable("slow down", retry_after=asked)
        return "ok"

    @function
    async def job() -> str:
        return await limited()

    assert harness.finish(harness.enqueue(job), timedelta(days=60)).result == "ok"


def test_retries_survive_a_restart_and_are_not_counted_anew(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=3)
    def flaky() -> None:
        outside.happened("flaky")
        raise ConnectionError("down")

    @function
    async def job() -> str:
        try:
            await flaky()
        except ConnectionError:
            return "gave up"
        return "?"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    harness.worker = harness.new_worker()

    assert harness.finish(run_id).result == "gave up"
    assert outside.count("flaky") == 4


def test_at_most_once_records_its_failure_and_raises_it_at_every_replay(harness: EngineHarness) -> None:
    outside = harness.outside

    @command(retries=0)
    def once() -> None:
        outside.happened("once")
        raise ValueError("no")

    @function
    async def job() -> None:
        await once()

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 4}))

    assert (run.state, run.deliveries) == (RunState.failed, 4)
    assert run.error is not None
    assert (run.error.kind, run.error.message) == ("ValueError", "no")
    assert outside.count("once") == 1


@pytest.mark.parametrize("point", [CrashPoint.after_intent, CrashPoint.effect_sent])
@pytest.mark.parametrize("effect", ["keyed", "naive", "none"])
def test_a_crash_during_at_most_once_is_an_unknown_outcome_at_the_await(
    harness: EngineHarness, point: CrashPoint, effect: str
) -> None:
    outside = harness.outside

    @command(retries=0, effect=effect)  # type: ignore[arg-type]
    def once() -> str:
        outside.happened("once")
        return "done"

    @command
    def look() -> str:
        outside.happened("look")
        return "looked"

    @function
    async def job() -> str:
        try:
            return await once()
        except UnknownOutcome:
            return await look()

    run_id = harness.enqueue(job)
    with harness.dying_at(point):
        harness.worker.run_due()
    harness.take_over()

    assert harness.finish(run_id).result == "looked"
    assert outside.count("once") == (0 if point is CrashPoint.after_intent else 1)
    with harness.database.read() as unit:
        assert unit.runs.steps(run_id)[0].error.kind == "hermes.errors:UnknownOutcome"  # type: ignore[union-attr]


class OrderLost(Exception):
    pass


class Coded(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (OrderLost("gone"), "OrderLost gone"),
        (Coded(402, "card declined"), "CommandFailed Coded: 402 card declined"),
        (KeyError("a"), "CommandFailed KeyError: 'a'"),
        (SystemExit("leave"), "CommandFailed SystemExit: leave"),
        (Retryable("later"), "Retryable later"),
    ],
)
@pytest.mark.parametrize("die", [False, True])
def test_an_exception_is_the_same_at_the_first_time_and_at_replay(
    harness: EngineHarness, raised: BaseException, caught: str, die: bool
) -> None:
    @command(retries=0)
    def fail() -> None:
        raise raised

    @command
    def tell(text: str) -> str:
        return text

    @function
    async def job() -> str:
        try:
            await fail()
        except (CommandFailed, OrderLost, Retryable) as exc:
            return await tell(f"{type(exc).__name__} {exc}")
        return "?"

    run_id = harness.enqueue(job)
    if die:
        with harness.dying_at(CrashPoint.before_intent, 2):
            harness.worker.run_due()
        harness.take_over()
    assert harness.finish(run_id).result == caught


def test_an_outage_of_the_database_spends_no_attempt(harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited out before the intent and after the effect."""
    from hermes.errors import StoreUnavailable

    outside, database = harness.outside, harness.database
    real_commit, refused = database.commit, []

    @command
    def act() -> str:
        outside.happened("act")
        refused.extend(["after the effect"] * 3)
        return "done"

    @function
    async def job() -> str:
        if not outside.count("act"):
            refused.extend(["before the intent"] * 3)
        return await act()

    def commit(change: Any) -> Any:
        if refused:
            raise StoreUnavailable(refused.pop())
        return real_commit(change)

    run_id = harness.enqueue(job)
    monkeypatch.setattr(database, "commit", commit)
    harness.worker.run_due()

    assert harness.get(run_id).result == "done"
    assert outside.count("act") == 1
    with database.read() as unit:
        assert unit.runs.steps(run_id)[0].attempts == 1
