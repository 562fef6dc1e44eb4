"""What the limiter keeps in the database: one row for each credential."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LimitState:
    """The row of a credential; instants are the database's."""

    paused_until: datetime | None = None
    pause_reason: str | None = None
    next_free_at: datetime | None = None
    """First instant that no ordinary call has taken."""
    urgent_free_at: datetime | None = None
    """The same for the lane of urgent calls."""


class LimitStatements(Protocol):
    def state(self, credential: str) -> LimitState: ...

    def hold(self, credential: str) -> LimitState:
        """The state, with the row held until the transaction ends, so that no two callers take one instant."""
        ...

    def take(
        self, credential: str, *, next_free_at: datetime | None = None, urgent_free_at: datetime | None = None
    ) -> None:
        """Write what is not None, under `hold`."""
        ...

    def pause(self, credential: str, until: datetime, reason: str) -> LimitState:
        """Never shortens a pause. Returns the state as it is now."""
        ...


class LimitUnit(Protocol):
    @property
    def now(self) -> datetime: ...

    @property
    def limits(self) -> LimitStatements: ...


class LimitStore(Protocol):
    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[LimitUnit]: ...

    def read(self) -> AbstractContextManager[LimitUnit]: ...
