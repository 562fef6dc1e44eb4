"""Counters of this process under their published names. An exporter reads `snapshot()`; nothing else depends on one."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass, field

COUNTERS = (
    "polls_started",
    "polls_succeeded",
    "polls_failed",
    "tasks_claimed",
    "tasks_completed",
    "tasks_failed",
    "claim_expired_count",
    "duplicate_suppressed_count",
    "llm_calls",
    "llm_cost",
    "rate_limit_count",
    "tick_failures",
)
GAUGES = ("polls_due",)
RUN_DURATION = "average_run_duration"
"""A histogram in seconds; the average is sum / count."""
BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    count: int = 0
    sum: float = 0.0
    buckets: tuple[int, ...] = field(default=(0,) * (len(BUCKETS) + 1))
    """Observations at most BUCKETS[i], not cumulative; the last is the rest."""

    @property
    def average(self) -> float | None:
        return self.sum / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    values: dict[str, float]
    run_duration: Histogram


class Metrics:
    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._values: dict[str, float] = {name: 0 for name in (*COUNTERS, *GAUGES)}
        self._duration = Histogram()

    def add(self, name: str, by: float = 1) -> None:
        """Raises KeyError for a name that is not published."""
        with self._mutex:
            self._values[name] += by

    def set(self, name: str, value: float) -> None:
        """Of a gauge. Raises KeyError for a name that is not published."""
        with self._mutex:
            if name not in self._values:
                raise KeyError(name)
            self._values[name] = value

    def run_took(self, seconds: float) -> None:
        with self._mutex:
            old = self._duration
            place = bisect_left(BUCKETS, seconds)
            buckets = tuple(count + (index == place) for index, count in enumerate(old.buckets))
            self._duration = Histogram(old.count + 1, old.sum + seconds, buckets)

    def snapshot(self) -> Snapshot:
        with self._mutex:
            return Snapshot(dict(self._values), self._duration)
