"""Polls, the versions of their definitions, and the occurrences that did something."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, Table
from sqlmodel import Field, SQLModel


class PollRow(SQLModel, table=True):
    __tablename__ = "polls"
    __table_args__ = (
        CheckConstraint("length(trim(poll_id)) > 0", name="ck_polls_poll_id"),
        Index("ix_polls_due", "status", "next_start_at"),
        Index("ix_polls_asked", "asked_at"),
    )

    poll_id: str = Field(primary_key=True, max_length=100)
    user_id: str = Field(default="default", max_length=100)
    workspace_id: str = Field(default="default", max_length=100)
    priority: int = 5
    status: str = Field(default="active", max_length=20)
    disabled_reason: str | None = None
    definition_version: str = Field(max_length=64)
    condition_version: str = Field(max_length=64)
    schedule_version: str = Field(max_length=64)
    next_due_at: datetime | None = None
    next_start_at: datetime | None = None
    """`next_due_at` plus jitter or backoff."""
    asked_at: datetime | None = None
    """A run by hand is wanted."""
    lease_owner: str | None = Field(default=None, max_length=100)
    lease_until: datetime | None = None
    fence: int = 0
    last_run_at: datetime | None = None
    last_ok_at: datetime | None = None
    failing_since: datetime | None = None
    failure_count: int = 0
    fatal_count: int = 0
    last_error: str | None = None
    last_note: str | None = None
    cursor: str | None = None
    watermark: datetime | None = None
    occurrence_count: int = 0
    checked_count: int = 0
    matched_count: int = 0
    changed_count: int = 0
    claimed_count: int = 0
    updated_at: datetime


class PollVersionRow(SQLModel, table=True):
    """A definition as it was written, kept for as long as something refers to it."""

    __tablename__ = "poll_versions"

    poll_id: str = Field(primary_key=True, max_length=100)
    definition_version: str = Field(primary_key=True, max_length=64)
    condition_version: str = Field(max_length=64)
    definition: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    first_seen_at: datetime


class OccurrenceRow(SQLModel, table=True):
    """One due instant of a poll that changed, did, failed or skipped something, or was asked for."""

    __tablename__ = "occurrences"
    __table_args__ = (Index("ix_occurrences_finished", "finished_at"),)

    poll_id: str = Field(primary_key=True, max_length=100)
    due_at: datetime = Field(primary_key=True)
    state: str = Field(max_length=20)
    by_hand: bool = False
    started_at: datetime
    finished_at: datetime
    attempts: int = 1
    checked: int = 0
    matched: int = 0
    changed: int = 0
    claimed: int = 0
    error: str | None = None
    note: str | None = None
    definition_version: str = Field(max_length=64)
    condition_version: str = Field(max_length=64)
    owner: str = Field(default="", max_length=100)
    fence: int = 0


POLLS: Table = PollRow.__table__  # type: ignore[attr-defined]
POLL_VERSIONS: Table = PollVersionRow.__table__  # type: ignore[attr-defined]
OCCURRENCES: Table = OccurrenceRow.__table__  # type: ignore[attr-defined]
