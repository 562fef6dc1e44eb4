"""Runs the bodies of commands: sync ones in threads, async ones on one loop, each for as long as its timeout allows.

A thread cannot be stopped. When its time is over nobody waits for it any more; what it brings later is a receipt.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, TypeAlias

from hermes.durable.context import StepInfo, step_info


@dataclass(frozen=True, slots=True)
class Returned:
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    after: timedelta


AttemptOutcome: TypeAlias = Returned | Raised | TimedOut


class Attempts:
    """One for a worker process."""

    def __init__(self) -> None:
        self._threads = DaemonThreads("hermes-command")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def run(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        info: StepInfo,
        timeout: timedelta,
        late: Callable[[Any], None],
    ) -> AttemptOutcome:
        """Call and wait. `late` is given a result that comes after the time was up."""
        attempt = self.begin(call, args, kwargs, info, timeout, late)
        return attempt.wait(timeout) or attempt.give_up()

    def begin(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        info: StepInfo,
        timeout: timedelta,
        late: Callable[[Any], None],
        done: Callable[[], None] | None = None,
    ) -> Attempt:
        """Call and go on. `done` is called, by another thread, when there is an outcome."""
        attempt = Attempt(timeout, lambda value: self._threads.run(lambda: late(value)), done)
        if inspect.iscoroutinefunction(call):
            attempt.task = asyncio.run_coroutine_threadsafe(
                _on_loop(attempt, call, args, kwargs, info), self._running_loop()
            )
        else:
            self._threads.run(lambda: self._in_thread(attempt, call, args, kwargs, info))
        return attempt

    def _in_thread(
        self, attempt: Attempt, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], info: StepInfo
    ) -> None:
        token = step_info.set(info)
        try:
            value = call(*args, **kwargs)
            if inspect.isawaitable(value):  # a plain function that hands out a coroutine
                value = asyncio.run_coroutine_threadsafe(_awaited(value, info), self._running_loop()).result()
            attempt.finish(Returned(value))
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the run's slot must hear of it
            attempt.finish(Raised(exc))
        finally:
            step_info.reset(token)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._mutex:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop_thread = threading.Thread(
                    target=_serve_loop, args=(self._loop,), name="hermes-loop", daemon=True
                )
                self._loop_thread.start()
            return self._loop

    def close(self) -> None:
        self._threads.close()
        with self._mutex:
            loop, self._loop, thread = self._loop, None, self._loop_thread
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_stop_loop(), loop)
            thread.join(timeout=1)  # not longer: a blocking command may hold it for ever


class Attempt:
    """Under way: where the one who waits and the one who works meet once."""

    def __init__(self, timeout: timedelta, late: Callable[[Any], None], done: Callable[[], None] | None = None) -> None:
        self.timeout = timeout
        self.task: Future[None] | None = None
        """Of an async command."""
        self._ends = time.monotonic() + timeout.total_seconds()
        self._late = late
        self._call_when_done = done
        self._done = threading.Lock()
        """Open once there is an outcome. A bare lock: an Event costs a multiple, at every attempt."""
        self._done.acquire()
        self._mutex = threading.Lock()
        self._outcome: AttemptOutcome | None = None
        self._left = False

    @property
    def outcome(self) -> AttemptOutcome | None:
        return self._outcome

    def finish(self, outcome: AttemptOutcome) -> None:
        with self._mutex:
            first, self._outcome = self._outcome is None, outcome
            left = self._left
        if first:
            self._done.release()
            if self._call_when_done is not None:
                self._call_when_done()
        if left and isinstance(outcome, Returned):
            self._late(outcome.value)

    def wait(self, timeout: timedelta) -> AttemptOutcome | None:
        if self._done.acquire(timeout=min(timeout.total_seconds(), threading.TIMEOUT_MAX)):
            self._done.release()
        return self._outcome

    def give_up(self) -> AttemptOutcome:
        """Its time is over, unless the outcome comes just now."""
        outcome = self._leave()
        if outcome is not None:
            return outcome
        if self.task is not None:
            self.task.cancel()
        return TimedOut(self.timeout)

    def remaining(self) -> timedelta:
        """Of its time, by a clock that nobody sets: what works in a thread or on the loop does not know of another."""
        return timedelta(seconds=self._ends - time.monotonic())

    def leave(self) -> None:
        """Nobody waits for it any more. It may go on until its time is over; a result is given to `late`."""
        outcome = self._leave()
        if isinstance(outcome, Returned):
            self._late(outcome.value)
        if outcome is not None or self.task is None:
            return
        task = self.task
        timer = threading.Timer(max(self.remaining().total_seconds(), 0), task.cancel)
        timer.daemon = True
        task.add_done_callback(lambda _: timer.cancel())
        timer.start()

    def _leave(self) -> AttemptOutcome | None:
        with self._mutex:
            self._left = self._outcome is None
            return self._outcome


async def _on_loop(
    attempt: Attempt, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], info: StepInfo
) -> None:
    step_info.set(info)
    try:
        attempt.finish(Returned(await call(*args, **kwargs)))
    except BaseException as exc:  # noqa: BLE001 - as in a thread
        attempt.finish(Raised(exc))


async def _awaited(value: Any, info: StepInfo) -> Any:
    step_info.set(info)
    return await value


def _serve_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _stop_loop() -> None:
    loop = asyncio.get_running_loop()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*others, return_exceptions=True)
    loop.call_soon(loop.stop)


class DaemonThreads:
    """Threads that are kept for the next piece of work and never keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._idle = 0
        self._count = 0

    def run(self, work: Callable[[], None]) -> None:
        with self._mutex:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._live, name=f"{self._name}-{self._count}", daemon=True).start()
        self._work.put(work)

    def _live(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._mutex:
                self._idle += 1

    def close(self) -> None:
        with self._mutex:
            count = self._count
        for _ in range(count):
            self._work.put(None)
