"""What every process of the installation must know about a credential before it calls."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table
from sqlmodel import Field, SQLModel


class LimitRow(SQLModel, table=True):
    __tablename__ = "limits"

    credential: str = Field(primary_key=True, max_length=64)
    """A hash: the token itself is never stored."""
    paused_until: datetime | None = None
    pause_reason: str | None = None
    next_free_at: datetime | None = None
    """First instant that no ordinary call has taken."""
    urgent_free_at: datetime | None = None
    """The same for the lane of urgent calls."""
    updated_at: datetime


LIMITS: Table = LimitRow.__table__  # type: ignore[attr-defined]
