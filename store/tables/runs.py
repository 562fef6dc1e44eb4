"""Runs, their steps and timeline, receipts of former holders, and the places that bound how many run at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Index, Integer, Table, Text, text
from sqlmodel import Field, SQLModel

_BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts by itself only an INTEGER primary key


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class RunRow(SQLModel, table=True):
    """One execution of a durable function under a key."""

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint("length(trim(key)) > 0", name="ck_runs_key"),
        CheckConstraint("length(trim(id)) > 0", name="ck_runs_id"),
        # What a worker may lease, in the order it does; sleepers stand apart so that they cost nothing.
        Index("ix_runs_ready", "priority", "due_at", **_where("state = 'ready'")),
        Index("ix_runs_waiting", "due_at", **_where("state = 'waiting'")),
        Index("ix_runs_running", "lease_until", **_where("state = 'running'")),
        Index("ix_runs_created", "created_at"),
        # What retention has still to do with.
        Index("ix_runs_over", "finished_at", **_where("finished_at IS NOT NULL AND details <> 'gone'")),
        Index("ix_runs_poll", "poll_id", "created_at"),
        Index("ix_runs_object", "object_id"),
        Index("ix_runs_parent", "parent_run_id"),
    )

    id: str = Field(primary_key=True, max_length=64)
    key: str = Field(max_length=500, unique=True)
    kind: str = Field(max_length=20)
    function: str = Field(max_length=300)
    args: str = Field(sa_type=Text)
    """JSON by parameter name."""
    state: str = Field(max_length=20)
    held: bool = False
    hold_on_redelivery: bool = False
    due_at: datetime | None = None
    priority: float = 0.0
    place_group: str | None = Field(default=None, max_length=200)
    owner: str | None = Field(default=None, max_length=64)
    fence: int = 0
    lease_until: datetime | None = None
    deliveries: int = 0
    max_deliveries: int = 16
    crashes: int = 0
    take_overs: int = 0
    failed_step: int | None = None
    """Step whose failure is the last thing recorded: it gets its retries afresh at a redelivery or resume."""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    changed_at: datetime
    result: str | None = Field(default=None, sa_type=Text)
    error_kind: str | None = Field(default=None, max_length=300)
    error_message: str | None = Field(default=None, sa_type=Text)
    error_trace: str | None = Field(default=None, sa_type=Text)
    reason: str | None = Field(default=None, sa_type=Text)
    cancel_reason: str | None = Field(default=None, sa_type=Text)
    poll_id: str | None = Field(default=None, max_length=100)
    condition_version: str | None = Field(default=None, max_length=64)
    object_id: str | None = Field(default=None, max_length=100)
    parent_run_id: str | None = Field(default=None, max_length=64)
    duplicates: int = 0
    namespace: str = Field(default="default", max_length=100, sa_column_kwargs={"server_default": "default"})
    base_seq: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Last step of the histories before this one: steps go on counting, so that no idempotency key comes twice."""
    continued: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """How often it has begun an empty history."""
    details: str = Field(default="whole", max_length=10, sa_column_kwargs={"server_default": "whole"})
    """whole; going: retention removes steps and timeline, and nobody may resume it; gone: key and ending are left."""


class StepRow(SQLModel, table=True):
    __tablename__ = "steps"
    __table_args__ = (Index("ix_steps_awaits", "awaits_run_id", **_where("awaits_run_id IS NOT NULL")),)

    run_id: str = Field(primary_key=True, max_length=64, foreign_key="runs.id")
    seq: int = Field(primary_key=True)
    kind: str = Field(max_length=20)
    name: str = Field(max_length=300)
    state: str = Field(max_length=20)
    attempts: int = 0
    attempts_before: int = 0
    fence: int = 0
    """Of the lease that made the last attempt."""
    effect: str | None = Field(default=None, max_length=20)
    args: str | None = Field(default=None, sa_type=Text)
    result: str | None = Field(default=None, sa_type=Text)
    error_kind: str | None = Field(default=None, max_length=300)
    error_message: str | None = Field(default=None, sa_type=Text)
    error_trace: str | None = Field(default=None, sa_type=Text)
    first_attempt_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    due_at: datetime | None = None
    awaits_run_id: str | None = Field(default=None, max_length=64)


class ReceiptRow(SQLModel, table=True):
    """A result that came after its lease was lost or its time was up. It never advances a run by itself."""

    __tablename__ = "receipts"

    run_id: str = Field(primary_key=True, max_length=64)
    seq: int = Field(primary_key=True)
    attempt: int = Field(primary_key=True)
    name: str = Field(max_length=300)
    result: str = Field(sa_type=Text)
    received_at: datetime


class TimelineRow(SQLModel, table=True):
    """What happened to a run, in order; only ever added to."""

    __tablename__ = "timeline"
    __table_args__ = (Index("ix_timeline_run", "run_id", "id"),)

    id: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    run_id: str = Field(max_length=64)
    at: datetime
    what: str = Field(max_length=40)
    step: int | None = None
    detail: str | None = Field(default=None, sa_type=Text)


class PlaceRow(SQLModel, table=True):
    """One place of a group: as many runs of the group run at once as it has rows. A place past `until` is free."""

    __tablename__ = "places"
    __table_args__ = (Index("ix_places_run", "run_id"),)

    place_group: str = Field(primary_key=True, max_length=200)
    slot: int = Field(primary_key=True)
    run_id: str | None = Field(default=None, max_length=64)
    until: datetime | None = None


def _table(row: type[SQLModel]) -> Table:
    table: Table = row.__table__  # type: ignore[attr-defined]
    return table


RUNS = _table(RunRow)
STEPS = _table(StepRow)
RECEIPTS = _table(ReceiptRow)
TIMELINE = _table(TimelineRow)
PLACES = _table(PlaceRow)
