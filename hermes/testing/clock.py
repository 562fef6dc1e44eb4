"""A clock that only moves when told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Wall and boot time move together by `advance`; `sleep` advances instead of waiting."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
        self._boot = 1000.0
        self._mutex = threading.Lock()

    def now(self) -> datetime:
        with self._mutex:
            return self._now

    def boot_seconds(self) -> float:
        with self._mutex:
            return self._boot

    def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=max(0.0, seconds)))

    def advance(self, by: timedelta) -> None:
        with self._mutex:
            self._now += by
            self._boot += by.total_seconds()

    def step_wall(self, by: timedelta) -> None:
        """Move the wall clock alone, as an operator or NTP would."""
        with self._mutex:
            self._now += by
