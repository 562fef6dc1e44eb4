"""Events that were fired, and the waits that are open for one."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index, Integer, Table, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

_BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts by itself only an INTEGER primary key


class EventRow(SQLModel, table=True):
    """One event. Kept until a wait takes it or its time is over; then for as long as its id must be known."""

    __tablename__ = "events"
    __table_args__ = (
        UniqueConstraint("namespace", "name", "instance_id", "event_id", name="uq_events_event_id"),
        # What a wait may take, oldest first.
        Index(
            "ix_events_kept",
            "namespace",
            "name",
            "instance_id",
            "id",
            sqlite_where=text("delivered_at IS NULL"),
            postgresql_where=text("delivered_at IS NULL"),
        ),
        Index("ix_events_expires", "expires_at"),
        Index("ix_events_run", "run_id"),
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    namespace: str = Field(max_length=100)
    name: str = Field(max_length=200)
    instance_id: str = Field(max_length=500)
    event_id: str | None = Field(default=None, max_length=200)
    """Given by whoever fired it: the same one again is the same event."""
    payload: str | None = Field(default=None, sa_type=Text)
    fired_at: datetime
    fired_by: str = Field(max_length=200)
    expires_at: datetime
    run_id: str | None = Field(default=None, max_length=64)
    """Whose wait took it."""
    seq: int | None = None
    delivered_at: datetime | None = None


class WaitRow(SQLModel, table=True):
    """A wait that is being awaited now. The order of the ids is the order in which waits of one pair are served."""

    __tablename__ = "waits"
    __table_args__ = (
        UniqueConstraint("run_id", "seq", name="uq_waits_run_id"),
        Index("ix_waits_pair", "namespace", "name", "instance_id", "id"),
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    run_id: str = Field(max_length=64)
    seq: int
    namespace: str = Field(max_length=100)
    name: str = Field(max_length=200)
    instance_id: str = Field(max_length=500)
    since: datetime
    until: datetime | None = None
    """From then on it takes nothing: its own time-out, or something else of its race, comes first."""
    race: bool = False
    """The first event for any wait of its run closes the others."""


EVENTS: Table = EventRow.__table__  # type: ignore[attr-defined]
WAITS: Table = WaitRow.__table__  # type: ignore[attr-defined]
