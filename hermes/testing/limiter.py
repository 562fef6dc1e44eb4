"""A limiter that lets everybody through and takes notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class NotedLimiter:
    urgent: list[bool] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def acquire(self, *, urgent: bool = False) -> None:
        self.urgent.append(urgent)

    def pause(self, seconds: float, reason: str) -> None:
        self.pauses.append(seconds)

    def paused_until(self) -> datetime | None:
        return None
