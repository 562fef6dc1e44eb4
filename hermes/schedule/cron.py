"""Cron expressions in a timezone. cronsim does the calendar; what a clock change means is decided here.

Every wall time that matches is due once: one that a clock change skips is due at the first instant after the gap, one
that comes twice is due the first time. Only an expression for every hour (`*/15 * * * *`) follows real time and is due
in both passes of a repeated hour. (cronsim's own rule, Debian's, also repeats `*/30 2 * * *` and drops it in a gap.)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_AROUND = timedelta(hours=26)
"""Longest clock change on record (a whole day, Samoa 2011) and some."""
_NONE = timedelta(0)
_ANY_DAY = datetime(2026, 1, 1)  # noqa: DTZ001  (wall time)


@dataclass(frozen=True, slots=True)
class Cron:
    text: str
    every_hour: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError that says what is wrong."""
        fields = text.split()
        if len(fields) != 5:
            raise ValueError(f"expected 5 fields (minute hour day month weekday), got {len(fields)}")
        try:
            simulator = CronSim(text, _ANY_DAY)
            next(simulator)
        except CronSimError as exc:
            raise ValueError(f"not a cron expression: {str(exc)[:1].lower()}{str(exc)[1:]} in {text[:60]!r}") from exc
        except StopIteration as exc:
            raise ValueError(f"{text[:60]!r} never comes: no such date in the next 50 years") from exc
        return cls(" ".join(fields), every_hour=len(simulator.hours) == 24)

    def next_after(self, after: datetime, zone: ZoneInfo) -> datetime:
        """The first due instant later than `after`, in UTC."""
        local = after.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        offsets = [(after + shift).astimezone(zone).utcoffset() or _NONE for shift in (-_AROUND, _NONE, _AROUND)]
        # Near a clock change a wall time that lies behind may still have an instant ahead.
        start = wall - (max(offsets) - min(offsets))
        best: datetime | None = None
        for fold in (0, 1) if self.every_hour else (0,):
            for candidate in CronSim(self.text, start):
                instant = instant_of(candidate, zone, fold)
                if instant > after:
                    best = instant if best is None else min(best, instant)
                    break
        if best is None:
            raise ValueError(f"{self.text!r} never comes again")
        return best


def instant_of(wall: datetime, zone: ZoneInfo, fold: int = 0) -> datetime:
    """The instant of a wall time; the end of the gap for one that a clock change skips."""
    aware = wall.replace(tzinfo=zone, fold=fold)
    instant = aware.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall.replace(fold=0):
        return instant
    # In a gap fold=1 reads with the offset after the change (an instant before it), fold=0 with the one before.
    low = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high
