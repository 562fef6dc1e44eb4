"""The only module that reads a clock. Everything else is handed a `Clock` or an instant."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware UTC."""
        ...

    def boot_seconds(self) -> float:
        """Seconds since boot, suspended time included: the clock for guards that a pause must not fool."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait in this thread. A fake clock moves itself forward instead."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot_seconds(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
