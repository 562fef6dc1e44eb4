"""One limiter for each credential: every caller asks before it calls and reports what the other side said."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Limiter(Protocol):
    def acquire(self, *, urgent: bool = False) -> None:
        """Wait for a turn (lease renewals and final writes are urgent and go first); raises `Retryable` with
        `retry_after` instead of waiting when the pause still to come is longer than a caller should sit on."""
        ...

    def pause(self, seconds: float, reason: str) -> None:
        """The other side said stop: nobody in any process of this installation calls before it is over."""
        ...

    def paused_until(self) -> datetime | None: ...
