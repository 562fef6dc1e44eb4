"""The rule for the next due instant of a poll, and how starts are spread. Pure: no clock, no randomness."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hermes.schedule.cron import Cron

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_SPREAD = timedelta(seconds=5)
"""New polls start within this, so that a first `up` shows something at once and 500 new polls do not start together."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """Exactly one of `every` and `cron`."""

    poll_id: str
    every: timedelta | None
    cron: Cron | None
    zone: ZoneInfo
    jitter: timedelta = timedelta(0)

    def next_due(self, after: datetime, now: datetime) -> datetime:
        """The first due instant later than both: what was missed in between is one late occurrence, not many."""
        return self._first_after(max(after, now))

    def _first_after(self, instant: datetime) -> datetime:
        if self.cron is not None:
            return self.cron.next_after(instant, self.zone)
        assert self.every is not None  # noqa: S101  (narrowing)
        # Each poll has a phase of its own: polls of one interval do not all start on the hour.
        phase = _whole(share(self.poll_id) * self.every)
        done = (instant - _EPOCH - phase) // self.every
        return _EPOCH + phase + (done + 1) * self.every

    def first_due(self, now: datetime) -> datetime:
        """For a poll that is new or whose schedule was edited."""
        if self.every is None:
            return self._first_after(now)
        return now + _whole(share(self.poll_id) * min(self.every, FIRST_SPREAD))

    def start_at(self, due_at: datetime) -> datetime:
        """When the occurrence may start: jitter is a stable share of at most half the time to the next one."""
        if not self.jitter:
            return due_at
        interval = self.every or self._first_after(due_at) - due_at
        return due_at + _whole(share(f"{self.poll_id}@{due_at.isoformat()}") * min(self.jitter, interval / 2))


def share(text: str) -> float:
    """A stable number in [0, 1) for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def _whole(span: timedelta) -> timedelta:
    """In whole seconds, for the sake of those who read the instants."""
    return timedelta(seconds=span // timedelta(seconds=1))
