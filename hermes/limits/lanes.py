"""How a budget of calls a minute is paced: pure arithmetic over instants.

A lane hands out instants one spacing apart, and up to `burst` of them at once after a rest. In any sixty seconds it
hands out at most its share: the rate is the share less the burst. Urgent calls have a lane of their own, so they never
queue behind ordinary ones, and take from the ordinary lane too while nobody waits there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

URGENT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Lane:
    spacing: timedelta
    burst: int

    @classmethod
    def of(cls, share: float) -> Lane:
        burst = max(1, int(share // 12))
        rate = max(share - burst, share / 2)
        return cls(spacing=timedelta(seconds=60 / rate), burst=burst)

    def first(self, next_free_at: datetime | None, now: datetime) -> datetime:
        """The instant a call asked for now would get."""
        if next_free_at is None:
            return now
        return max(now, next_free_at - self.spacing * (self.burst - 1))

    def take(self, count: int, next_free_at: datetime | None, now: datetime) -> tuple[list[datetime], datetime]:
        """`count` instants, and what `next_free_at` is afterwards."""
        instants = []
        free = max(next_free_at or now, now)
        for _ in range(count):
            instants.append(self.first(free, now))
            free += self.spacing
        return instants, free


@dataclass(frozen=True, slots=True)
class Pacing:
    ordinary: Lane
    urgent: Lane

    @classmethod
    def of(cls, calls_per_minute: int) -> Pacing:
        urgent = calls_per_minute * URGENT_SHARE
        return cls(ordinary=Lane.of(calls_per_minute - urgent), urgent=Lane.of(urgent))
