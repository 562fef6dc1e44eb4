"""Which run owns which card, what we meant to write to it, and what stops a board."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index
from sqlmodel import Field, SQLModel


class CardRow(SQLModel, table=True):
    """The object lease of one card: one row for ever, its fence grows with each holder."""

    __tablename__ = "cards"
    __table_args__ = (
        CheckConstraint("length(trim(card_id)) > 0", name="ck_cards_card_id"),
        Index("ix_cards_due", "state", "due_at"),
        Index("ix_cards_run", "run_id"),
        Index("ix_cards_poll", "poll_id", "state"),
    )

    board: str = Field(primary_key=True, max_length=100)
    card_id: str = Field(primary_key=True, max_length=100)
    poll_id: str = Field(max_length=100)
    state: str = Field(max_length=20)
    generation: int = 1
    run_id: str | None = Field(default=None, max_length=64)
    fence: int = 0
    holder: str | None = Field(default=None, max_length=64)
    """Boot id that is working on the row now; `due_at` is when that hold ends."""
    due_at: datetime | None = None
    """When somebody must look at this row next: hold over, wait-out over, extension or backoff due."""
    unknown_until: datetime | None = None
    """End of the wait-out of a write whose outcome is unknown: nobody writes the page before it."""
    board_expires_at: datetime | None = None
    """ClaimExpiresAt as last acknowledged by the board."""
    claimed_at: datetime | None = None
    text_hash: str = Field(default="", max_length=64)
    """Of the text the current generation was started with."""
    retry_count: int = 0
    """RetryCount as we last wrote it."""
    shown: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """Progress of what is being shown to people for the current state: which of result, comment, status are done."""
    note: str | None = None
    """Why it is in this state, in plain words."""
    title: str = ""
    url: str = ""
    updated_at: datetime


class BoardLogRow(SQLModel, table=True):
    """Every write to a card, logged before it is sent: a value that no row explains is a person's."""

    __tablename__ = "board_log"
    __table_args__ = (Index("ix_board_log_card", "board", "card_id", "id"),)

    id: int | None = Field(default=None, primary_key=True)
    board: str = Field(max_length=100)
    card_id: str = Field(max_length=100)
    run_id: str | None = Field(default=None, max_length=64)
    fence: int
    kind: str = Field(max_length=20)
    """claim, extend, sleep, retry, finish, release, result, comment."""
    wanted: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    sent_at: datetime
    outcome: str = Field(default="sent", max_length=20)
    """sent (no answer recorded), applied, not_applied, unknown."""
    answered_at: datetime | None = None
    error: str | None = None


class BoardRow(SQLModel, table=True):
    """What is known of a board as a whole."""

    __tablename__ = "boards"

    board: str = Field(primary_key=True, max_length=100)
    name: str = ""
    foreign_installation: str | None = None
    """Another installation whose claim was seen: claiming stops until a person decides."""
    foreign_seen_at: datetime | None = None
    problem: str | None = None
    """A missing column or refused credential, exactly; claiming stops, running cards finish."""
    problem_at: datetime | None = None
    queried_at: datetime | None = None


class BoardTrustRow(SQLModel, table=True):
    """A process that has seen one whole poll of the board without another installation."""

    __tablename__ = "board_trust"

    board: str = Field(primary_key=True, max_length=100)
    boot_id: str = Field(primary_key=True, max_length=64)
    seen_alone_at: datetime
