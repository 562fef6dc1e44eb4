"""One thread, one seed, one schedule: actors are greenlets. Whoever pauses may find that time has passed, that others
have been at work, or that its process has died. Everything that happens is noted, and the notes have one hash.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Protocol

from greenlet import getcurrent, greenlet

BEGINNING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BOOT = 1000.0


class Died(BaseException):
    """The process of this actor is gone: nothing of it goes on."""


class Place(Protocol):
    """Where actors live and die together: a process."""

    name: str
    dead: bool
    inside: int
    """Transactions that are open: nobody else goes on before they are over."""
    resumes_at: float


class Actor:
    def __init__(self, name: str, body: Callable[[], None], place: Place | None, wake_at: float) -> None:
        self.name = name
        self.place = place
        self.wake_at = wake_at
        self.idle = False
        """It waits for work: a commit that made something due wakes it."""
        self.doing = "begin"
        self.greenlet = greenlet(body)
        """Its parent is the schedule: when it ends, that goes on."""


class Schedule:
    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.random = Random(seed)
        self.now = BOOT
        self.clock = SimulatedClock(self)
        self.steps = 0
        self.before_step: Callable[[Actor], bool] = lambda _actor: True
        """Asked before an actor goes on; False: it does not, and somebody has seen to that."""
        self._trace = trace
        self._hash = hashlib.sha256()
        self._main = getcurrent()
        self._actors: list[Actor] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    @property
    def current(self) -> Actor | None:
        here = getcurrent()
        return next((actor for actor in self._actors if actor.greenlet is here), None)

    def note(self, who: str, what: object) -> None:
        line = f"{self.now - BOOT:10.3f} {who:<16} {what}"
        self._hash.update(line.encode())
        if self._trace is not None:
            self._trace(line)

    def digest(self) -> str:
        return self._hash.hexdigest()

    # -- what actors call

    def pause(self, seconds: float, doing: str, *, idle: bool = False) -> None:
        """Let others go on. Inside a transaction, and outside any actor, nobody else is there to."""
        actor = self.current
        if actor is None:
            self.now += seconds
            return
        place = actor.place
        if place is not None and place.dead:
            raise Died
        if place is not None and place.inside:
            return
        actor.wake_at, actor.doing, actor.idle = self.now + seconds, doing, idle
        self._main.switch()
        actor.idle = False

    def spawn(self, name: str, body: Callable[[], None], place: Place | None = None, after: float = 0.0) -> Actor:
        def live() -> None:
            with suppress(Died):
                body()

        actor = Actor(name, live, place, self.now + after)
        actor.greenlet.parent = self._main
        self._actors.append(actor)
        return actor

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """`call` must not pause."""
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), call))

    def wake(self, actor: Actor) -> None:
        if actor.idle:
            actor.wake_at = min(actor.wake_at, self.now)

    # -- what drives them

    @property
    def timers(self) -> int:
        return len(self._timers)

    def run_until(self, end: float) -> None:
        while self.step(end):
            pass

    def step(self, end: float) -> bool:
        """One actor goes on, or a timer fires; time passes to it if it must. False when nothing is left to `end`."""
        times = [(self._may_go_at(actor), actor) for actor in self._actors]
        timer = self._timers[0][0] if self._timers else float("inf")
        first = min([timer, *(time for time, _ in times)])
        if first > end:
            self.now = max(self.now, end)
            return False
        self.now = max(self.now, first)
        ready = [actor for time, actor in times if time <= self.now]
        if timer <= self.now and (not ready or self.random.random() < 0.5):
            heapq.heappop(self._timers)[2]()
            return True
        self._go_on(ready[self.random.randrange(len(ready))])
        return True

    def _may_go_at(self, actor: Actor) -> float:
        return actor.wake_at if actor.place is None else max(actor.wake_at, actor.place.resumes_at)

    def _go_on(self, actor: Actor) -> None:
        self.steps += 1
        if not self.before_step(actor):
            return
        if not actor.idle:
            self.note(actor.name, actor.doing)
        actor.greenlet.switch()
        self._bury()

    def kill(self, place: Place) -> None:
        """From outside: every actor of it dies where it stands."""
        place.dead = True
        for actor in [actor for actor in self._actors if actor.place is place]:
            if actor.greenlet:
                actor.greenlet.throw(Died)
            else:
                self._actors.remove(actor)  # it had not begun
        self._bury()

    def _bury(self) -> None:
        self._actors = [actor for actor in self._actors if not actor.greenlet.dead]


class SimulatedClock:
    """Wall and boot time move together, when the schedule says so."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=round(self._schedule.now - BOOT, 6))

    def boot_seconds(self) -> float:
        return self._schedule.now

    def sleep(self, seconds: float) -> None:
        self._schedule.pause(max(0.0, seconds), "sleep")
