"""Promise 10: every command has a timeout; sync ones run in threads, async ones on a loop of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from hermes.durable import command, current_step, function
from hermes.durable.attempts import Attempts, Raised, Returned, TimedOut
from hermes.durable.command import DEFAULT_TIMEOUT
from hermes.durable.context import StepInfo, step_info
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness


def test_five_minutes_by_default() -> None:
    @command
    def act() -> None: ...

    assert act.timeout == DEFAULT_TIMEOUT == timedelta(minutes=5)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("effect", "state"),
    [("keyed", RunState.succeeded), ("none", RunState.succeeded), ("naive", RunState.parked)],
)
def test_a_timed_out_attempt_is_of_unknown_outcome(
    harness: EngineHarness, asynchronous: bool, effect: str, state: RunState
) -> None:
    outside, never = harness.outside, threading.Event()
    how = {"effect": effect, "timeout": timedelta(seconds=0.25)}  # the second attempt has no longer

    @command(**how)  # type: ignore[call-overload, untyped-decorator]
    def hangs() -> str:
        if outside.happened("hangs") == 1:
            never.wait(10)
            raise ValueError("nobody waits for this")
        return "answered"

    @command(**how)  # type: ignore[call-overload, untyped-decorator]
    async def hangs_async() -> str:
        if outside.happened("hangs") == 1:
            try:
                await asyncio.sleep(10)
            finally:
                outside.happened("cancelled")
        return "answered"

    @function
    async def job() -> str:
        return str(await (hangs_async() if asynchronous else hangs()))

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    run = harness.finish(run_id)
    never.set()

    assert run.state is state
    if state is RunState.succeeded:
        assert (run.result, outside.count("hangs")) == ("answered", 2)
    else:
        assert "no answer within 0.25 s" in (run.reason or "")
        assert outside.count("hangs") == 1


def test_a_command_knows_its_step_in_a_thread_and_on_the_loop(harness: EngineHarness) -> None:
    @command
    def in_a_thread() -> list[str]:
        return [current_step().idempotency_key, threading.current_thread().name]

    @command
    async def on_the_loop() -> list[str]:
        await asyncio.sleep(0)
        return [current_step().idempotency_key, threading.current_thread().name]

    @command
    def hands_out_a_coroutine() -> list[str]:
        return on_the_loop.call()  # type: ignore[return-value]

    @function
    async def job() -> list[list[str]]:
        return [await in_a_thread(), await on_the_loop(), await hands_out_a_coroutine()]

    run = harness.run(job)
    assert run.result == [
        [f"{run.id}:1", "hermes-command-1"],
        [f"{run.id}:2", "hermes-loop"],
        [f"{run.id}:3", "hermes-loop"],
    ]


def test_a_command_called_by_a_command_is_plain_python(harness: EngineHarness) -> None:
    @command
    def inner() -> str:
        return current_step().idempotency_key

    @command
    async def outer() -> str:
        return await inner()

    @function
    async def job() -> str:
        return await outer()

    run = harness.run(job)
    assert run.result == f"{run.id}:1"
    with harness.database.read() as unit:
        assert len(unit.runs.steps(run.id)) == 1


def test_a_blocking_command_stalls_no_other() -> None:
    attempts, release = Attempts(), threading.Event()
    info = StepInfo("k", "r", "k", 1, 1, deadline=None)  # type: ignore[arg-type]
    slow = threading.Thread(
        target=lambda: attempts.run(release.wait, (30,), {}, info, timedelta(seconds=30), lambda value: None)
    )
    slow.start()
    began = time.monotonic()
    assert attempts.run(lambda: 5, (), {}, info, timedelta(seconds=30), lambda value: None) == Returned(5)
    assert time.monotonic() - began < 10
    release.set()
    slow.join()
    attempts.close()


def test_what_a_thread_brings_late_is_handed_on_once() -> None:
    attempts, release, late = Attempts(), threading.Event(), []

    def body() -> str:
        release.wait(10)
        return "late"

    info = StepInfo("k", "r", "k", 1, 1, deadline=None)  # type: ignore[arg-type]
    arrived = threading.Event()

    def receive(value: str) -> None:
        late.append(value)
        arrived.set()

    outcome = attempts.run(body, (), {}, info, timedelta(seconds=0.02), receive)
    assert outcome == TimedOut(timedelta(seconds=0.02))
    release.set()
    assert arrived.wait(10)
    assert late == ["late"]
    assert step_info.get() is None
    attempts.close()


def test_a_command_may_raise_anything() -> None:
    attempts = Attempts()
    info = StepInfo("k", "r", "k", 1, 1, deadline=None)  # type: ignore[arg-type]

    def leave() -> None:
        raise SystemExit("bye")

    outcome = attempts.run(leave, (), {}, info, timedelta(seconds=10), lambda value: None)
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, SystemExit)
    attempts.close()
