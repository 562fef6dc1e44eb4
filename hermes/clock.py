"""The only module that reads a clock. Everything else is handed a `Clock` or an instant."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
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


@cache
def machine_boot() -> str:
    """Which start of which machine `boot_seconds` counts from: readings of two processes compare only within one."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return uuid.uuid4().hex  # a system that does not say: readings of other processes are not compared
