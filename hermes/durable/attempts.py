"""Runs the bodies of commands: sync ones in threads, async ones on one loop, each for as long as its timeout allows.

A thread cannot be stopped. When its time is over nobody waits for it any more; what it brings later is a receipt.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
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
        ticket = _Ticket(lambda value: self._threads.run(lambda: late(value)))
        task: Future[None] | None = None
        if inspect.iscoroutinefunction(call):
            task = asyncio.run_coroutine_threadsafe(_on_loop(ticket, call, args, kwargs, info), self._running_loop())
        else:
            self._threads.run(lambda: self._in_thread(ticket, call, args, kwargs, info))
        outcome = ticket.wait(timeout)
        if outcome is not None:
            return outcome
        if task is not None:
            task.cancel()
        return TimedOut(timeout)

    def _in_thread(
        self, ticket: _Ticket, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], info: StepInfo
    ) -> None:
        token = step_info.set(info)
        try:
            value = call(*args, **kwargs)
            if inspect.isawaitable(value):  # a plain function that hands out a coroutine
                value = asyncio.run_coroutine_threadsafe(_awaited(value, info), self._running_loop()).result()
            ticket.finish(Returned(value))
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the run's slot must hear of it
            ticket.finish(Raised(exc))
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


class _Ticket:
    """Where the one who waits and the one who works meet once."""

    def __init__(self, late: Callable[[Any], None]) -> None:
        self._late = late
        self._done = threading.Lock()
        """Open once there is an outcome. A bare lock: an Event costs a multiple, at every attempt."""
        self._done.acquire()
        self._mutex = threading.Lock()
        self._outcome: AttemptOutcome | None = None
        self._given_up = False

    def finish(self, outcome: AttemptOutcome) -> None:
        with self._mutex:
            first, self._outcome = self._outcome is None, outcome
            given_up = self._given_up
        if first:
            self._done.release()
        if given_up and isinstance(outcome, Returned):
            self._late(outcome.value)

    def wait(self, timeout: timedelta) -> AttemptOutcome | None:
        self._done.acquire(timeout=min(timeout.total_seconds(), threading.TIMEOUT_MAX))
        with self._mutex:
            self._given_up = self._outcome is None
            return self._outcome


async def _on_loop(
    ticket: _Ticket, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], info: StepInfo
) -> None:
    step_info.set(info)
    try:
        ticket.finish(Returned(await call(*args, **kwargs)))
    except BaseException as exc:  # noqa: BLE001 - as in a thread
        ticket.finish(Raised(exc))


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
