"""Polling an outside system: asked until its answer is final, ever more rarely, and never for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar, TypeVarTuple

from hermes.durable.asking import ask_a_person
from hermes.durable.backoff import Backoff
from hermes.durable.codec import Codec
from hermes.durable.context import driving, only_in_a_function
from hermes.durable.events import Event
from hermes.durable.failure import ForeignAwait, NotStorable
from hermes.durable.handles import DelayHandle, Handle
from hermes.errors import Fatal, HermesError, WaitTimedOut
from hermes.model.event import DEFAULT_NAMESPACE, checked_pair

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

LONGEST = timedelta(minutes=10)
JITTER = 0.1
"""An interval is lengthened by up to this share of itself: runs that began together do not ask together for ever."""
SHOWN = 200

_ANY = Codec(Any, "the payload of a hint")


class PollExhausted(HermesError):
    """No answer was final before the cap was reached. `last` is the last answer there was, or None; `failure` is what
    the last ask raised, if it did."""

    def __init__(self, message: str, *, asked: int = 0, last: object = None, failure: Exception | None = None) -> None:
        super().__init__(message)
        self.asked = asked
        self.last = last
        self.failure = failure


def poll_until(
    ask: Callable[[*Ts], Awaitable[R]],
    *args: *Ts,
    until: Callable[[R], bool],
    every: timedelta,
    factor: float = 2.0,
    longest: timedelta | None = None,
    asks: int | None = None,
    deadline: timedelta | None = None,
    event: Event[Any] | None = None,
    instance_id: str | None = None,
    raises: bool = False,
) -> Coroutine[Any, Any, R]:
    """Await a command, `ask(*args)`, until it returns something of which `until` says that it is final; that is
    returned.

        status = await poll_until(
            ask_status, receipt, until=lambda s: s.final, every=timedelta(seconds=30), deadline=timedelta(hours=3)
        )

    It waits `every` before it asks for the first time, then `factor` times as long before each further ask, at most
    `longest` (10 minutes, or `every` if that is longer). Each wait is lengthened by up to a tenth, by a hash of run and
    step. The run hibernates meanwhile.

    One cap is needed. `asks`: so often at most, each with all its attempts. `deadline`: from now; the last ask is made
    when it is over. An ask that fails after its last attempt counts as one without an answer, unless it raised
    `hermes.errors.Fatal`.

    When the cap is reached a person is asked (`ask_a_person`): the run parks and is listed, and a resume asks at once
    and goes on with the whole cap anew. With `raises` it raises PollExhausted instead.

    `event` and `instance_id`: an event that ends the wait, such as a webhook. It is a hint: whatever it carries, the
    question is asked, so one that is lost costs time and one that lies costs an ask. After a hint that came too early
    the waits begin at `every` again, and the next hint is heeded after the first of them.

    It takes two steps a round. One that goes on for weeks is capped by `asks` with `raises`, and returns
    `continue_as_new(...)`: docs/durable.md.
    """
    if asks is None and deadline is None:
        raise TypeError("poll_until() needs a cap: give asks=, the most asks there may be, or deadline=, or both")
    if (event is None) != (instance_id is None):
        raise TypeError("poll_until(): event= and instance_id= go together")
    if not callable(ask):
        raise TypeError(f"poll_until() takes a command and its arguments, as in poll_until(ask, 42, ...), not {ask!r}")
    if every <= timedelta(0) or factor < 1 or (longest is not None and longest < every):
        raise ValueError("poll_until(): every is longer than nothing, longest not shorter, factor 1 or more")
    if (asks is not None and asks < 1) or (deadline is not None and deadline <= timedelta(0)):
        raise ValueError("poll_until(): asks is 1 or more, and deadline longer than nothing")
    if event is not None and instance_id is not None:
        checked_pair(DEFAULT_NAMESPACE, event.name, instance_id)
    only_in_a_function("poll_until")
    waits = Backoff(every, factor, longest or max(LONGEST, every), JITTER)
    hint = (event.name, instance_id) if event is not None and instance_id is not None else None
    return _Poll(lambda: ask(*args), until, waits, asks, deadline, hint).run(raises)


class _Poll(Generic[R]):
    def __init__(
        self,
        ask: Callable[[], Awaitable[R]],
        until: Callable[[R], bool],
        waits: Backoff,
        asks: int | None,
        deadline: timedelta | None,
        hint: tuple[str, str] | None,
    ) -> None:
        self._ask = ask
        self._until = until
        self._waits = waits
        self._asks = asks
        self._deadline = deadline
        self._hint = hint

    async def run(self, raises: bool) -> R:
        at_once = False
        while True:
            try:
                return await self._within_the_cap(at_once)
            except PollExhausted as exhausted:
                if raises:
                    raise
                reason = str(exhausted)
            await ask_a_person(reason)
            at_once = True

    async def _within_the_cap(self, at_once: bool) -> R:
        pause = _Pause(self._waits, self._deadline, self._hint)
        if not at_once:
            await pause.wait()
        asked = 0
        last: R | None = None
        while True:
            failure: Exception | None = None
            answer = self._ask()
            try:
                last = await answer
            except (Fatal, NotStorable, ForeignAwait):
                raise
            except Exception as exc:  # noqa: BLE001 - whatever a command raises: the next ask may be answered
                failure = exc
            else:
                if self._until(last):
                    return last
            asked += 1
            if pause.over or asked == self._asks:
                raise self._exhausted(asked, last, failure)
            await pause.wait()

    def _exhausted(self, asked: int, last: R | None, failure: Exception | None) -> PollExhausted:
        cap = f"asked {asked} times, the most allowed" if asked == self._asks else f"asked {asked} times"
        within = f" in {self._deadline}" if asked != self._asks else ""
        told = f"the last ask failed: {type(failure).__name__}: {failure}" if failure else f"the last answer: {last!r}"
        return PollExhausted(f"no final answer: {cap}{within}; {told[:SHOWN]}", asked=asked, last=last, failure=failure)


class _Pause:
    """The waits between the asks, until the deadline, which counts from here."""

    def __init__(self, waits: Backoff, deadline: timedelta | None, hint: tuple[str, str] | None) -> None:
        self.over = False
        """The last wait lasted until the deadline."""
        self._waits = waits
        self._hint = hint
        self._tries = 0
        self._heeds = True
        self._length = deadline
        self._spent = timedelta(0)
        delivery = driving.get()
        self._deadline: DelayHandle | None = None
        if deadline is not None and delivery is not None:
            self._deadline = delivery.delay(deadline)

    async def wait(self) -> None:
        self._tries += 1
        if not self._heeds:
            await self._sleep()
            self._heeds = True
        elif await self._sleep(self._hint):
            self._tries = 0
            self._heeds = False

    async def _sleep(self, hint: tuple[str, str] | None = None) -> bool:
        """True when the hint ended it."""
        delivery = driving.get()
        if delivery is None:
            self._pretend()
            return False
        length = self._waits.wait(self._tries, delivery.run.id, delivery.last_seq)
        waited: Handle[Any]
        if hint is None:
            waited = delivery.delay(length, not_after=self._deadline)
            await waited
        else:
            waited = delivery.wait_for_event(*hint, length, _ANY, not_after=self._deadline)
            try:
                await waited
            except WaitTimedOut:
                pass
            else:
                return True
        self.over = self._deadline is not None and delivery.due_together(waited, self._deadline)
        return False

    def _pretend(self) -> None:
        """Outside a run no time passes; the intervals add up all the same."""
        self._spent += self._waits.wait(self._tries, "outside a run", self._tries)
        self.over = self._length is not None and self._spent >= self._length
