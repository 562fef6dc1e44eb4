"""The limiter of one credential, shared by every process of the installation through one row of the database.

Two things are kept there: until when the other side said to stop, and which instants are taken. A process takes
instants in small batches and asks for the pause at most twice a second, so a call usually costs no statement.
Stored instants are the database's; a process waits by its boot-time clock, so a step of the wall clock while it waits
neither shortens nor stretches a pause.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermes.clock import Clock
from hermes.errors import Retryable, StoreError
from hermes.limits.lanes import Lane, Pacing
from hermes.ports.limits import LimitState, LimitStore

LONGEST_WAIT_SECONDS = 30.0
PAUSE_AGE_SECONDS = 0.5
"""How old our knowledge of a pause may be."""
LARGEST_BATCH = 8
FURTHEST_AHEAD = timedelta(minutes=5)


class LimitExceeded(Retryable):
    """Waiting for a turn would take longer than a caller should sit on; nothing was sent."""

    retry_after: float


def credential_key(secret: str) -> str:
    """Names a credential in the database without telling it."""
    return hashlib.sha256(secret.encode()).hexdigest()[:32]


class DatabaseLimiter:
    """Implements `hermes.ports.limiter.Limiter`. Safe to share between threads; each process has its own."""

    def __init__(
        self,
        credential_key: str,
        database: LimitStore,
        clock: Clock,
        calls_per_minute: int | None = None,
        *,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
    ) -> None:
        self._credential = credential_key
        self._database = database
        self._clock = clock
        self._pacing = Pacing.of(calls_per_minute) if calls_per_minute else None
        self._longest_wait = longest_wait_seconds
        self._mutex = threading.Lock()
        self._pause = _Pause()
        self._batches = {False: _Batch(), True: _Batch()}

    def acquire(self, *, urgent: bool = False) -> None:
        try:
            self._acquire(urgent)
        except StoreError as exc:
            raise Retryable(f"the limiter's row cannot be reached: {exc}") from exc

    def _acquire(self, urgent: bool) -> None:
        while (wait := self._pause_left()) > 0:
            if wait > self._longest_wait:
                raise LimitExceeded(f"{self._pause.reason or 'paused'}: again in {wait:.0f} s", retry_after=wait)
            self._clock.sleep(wait)
        if self._pacing is None:
            return
        wait = self._turn(urgent)
        if wait > 0:
            self._clock.sleep(wait)
            # Someone may have been told to stop while we waited. Our instant is used up; theirs holds.
            if self._pause_left() > 0:
                self._acquire(urgent)

    def pause(self, seconds: float, reason: str) -> None:
        with self._mutex:
            # This process stops at once, the others when they look; and it stops even if the database is away.
            self._pause.extend(self._clock.boot_seconds() + seconds, reason)
        with suppress(StoreError), self._database.write(urgent=True, durable=False) as unit:
            state = unit.limits.pause(self._credential, unit.now + timedelta(seconds=seconds), reason)
            self._learn(state, unit.now)

    def paused_until(self) -> datetime | None:
        left = self._pause_left()
        return self._clock.now() + timedelta(seconds=left) if left > 0 else None

    @property
    def pause_reason(self) -> str | None:
        return self._pause.reason if self._pause_left() > 0 else None

    def _pause_left(self) -> float:
        with self._mutex:
            stale = self._pause.looked_at is None or (
                self._clock.boot_seconds() - self._pause.looked_at >= PAUSE_AGE_SECONDS
            )
        if stale:
            with self._database.read() as unit:
                self._learn(unit.limits.state(self._credential), unit.now)
        with self._mutex:
            return max(0.0, self._pause.ends_at - self._clock.boot_seconds())

    def _learn(self, state: LimitState, now: datetime) -> None:
        with self._mutex:
            boot = self._clock.boot_seconds()
            self._pause.looked_at = boot
            # The same stored pause is counted once: later steps of the wall clock do not move its end.
            if state.paused_until is not None and state.paused_until != self._pause.stored:
                self._pause.stored = state.paused_until
                self._pause.extend(boot + (state.paused_until - now).total_seconds(), state.pause_reason)

    def _turn(self, urgent: bool) -> float:
        """Seconds to wait for an instant that is now ours."""
        batch = self._batches[urgent]
        with batch.mutex:  # ordinary callers waiting for the database hold up no urgent one
            at = batch.next(self._clock.boot_seconds())
            if at is None:
                at = self._refill(batch, urgent)
            return at - self._clock.boot_seconds()

    def _refill(self, batch: _Batch, urgent: bool) -> float:
        assert self._pacing is not None  # noqa: S101 - told by the caller
        with self._database.write(urgent=urgent, durable=False) as unit:
            boot = self._clock.boot_seconds()
            state, now = unit.limits.hold(self._credential), unit.now
            lane, free = self._pacing.ordinary, _plausible(state.next_free_at, now)
            reserved, reserved_free = self._pacing.urgent, _plausible(state.urgent_free_at, now)
            reserve = urgent and reserved.first(reserved_free, now) < lane.first(free, now)
            if reserve:
                lane, free = reserved, reserved_free
            wait = (lane.first(free, now) - now).total_seconds()
            if wait > self._longest_wait:
                raise LimitExceeded(f"the budget of calls is used up: again in {wait:.0f} s", retry_after=wait)
            instants, taken = lane.take(batch.size(lane), free, now)
            if reserve:
                unit.limits.take(self._credential, urgent_free_at=taken)
            else:
                unit.limits.take(self._credential, next_free_at=taken)
        return batch.fill([boot + (at - now).total_seconds() for at in instants])


def _plausible(free: datetime | None, now: datetime) -> datetime | None:
    """Nobody takes instants that far ahead: the wall clock was set back since."""
    return None if free is not None and free - now > FURTHEST_AHEAD else free


@dataclass(slots=True)
class _Pause:
    ends_at: float = 0.0
    """By the boot-time clock."""
    reason: str | None = None
    stored: datetime | None = None
    looked_at: float | None = None

    def extend(self, ends_at: float, reason: str | None) -> None:
        if ends_at > self.ends_at:
            self.ends_at, self.reason = ends_at, reason


class _Batch:
    """Instants taken ahead. It grows while they are used, and starts small again after a rest."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self._instants: deque[float] = deque()
        self._count = 1

    def next(self, boot: float) -> float | None:
        # An instant that is long past is not kept: spending a hoard at once would be the burst that pacing prevents.
        while self._instants and self._instants[0] < boot - 1:
            self._instants.popleft()
            self._count = 1
        return self._instants.popleft() if self._instants else None

    def size(self, lane: Lane) -> int:
        return min(self._count, LARGEST_BATCH, max(1, lane.burst))

    def fill(self, instants: list[float]) -> float:
        self._instants = deque(instants)
        self._count = min(self._count * 2, LARGEST_BATCH)
        return self._instants.popleft()
