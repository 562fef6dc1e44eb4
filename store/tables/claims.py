"""Which run owns which card, what we meant to write to it, and what stops a board."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index
from sqlmodel import Field, SQLModel


class CardRow(SQLModel, table=True):
    """The object lease of one card: one row for ever; its fence grows with every hold on it."""

    __tablename__ = "cards"
    __table_args__ = (
        CheckConstraint("length(trim(card_id)) > 0", name="ck_cards_card_id"),
        Index("ix_cards_due", "due_at", "board"),
        Index("ix_cards_run", "run_id"),
        Index("ix_cards_poll", "poll_id", "state", "rank", "created_at"),
    )

    board: str = Field(primary_key=True, max_length=100)
    card_id: str = Field(primary_key=True, max_length=100)
    poll_id: str = Field(max_length=100)
    state: str = Field(max_length=20)
    """See hermes.model.claim.ClaimState."""
    generation: int = 0
    """How often people have asked for this card; 0 until it is first claimed."""
    run_id: str | None = Field(default=None, max_length=64)
    fence: int = 0
    holder: str | None = Field(default=None, max_length=64)
    """Boot id of the process that works on this row now, until `held_until`."""
    held_until: datetime | None = None
    due_at: datetime | None = None
    """When somebody must look at the row next; None: nothing to do until a query or a run says so."""
    unknown_until: datetime | None = None
    """End of the wait-out of a write whose outcome is unknown: nobody writes the page before it."""
    board_expires_at: datetime | None = None
    """ClaimExpiresAt as the board last acknowledged it."""
    claimed_at: datetime | None = None
    settled_at: datetime | None = None
    """When the current state was last confirmed by an acknowledged write or a GET."""
    text_hash: str = Field(default="", max_length=64)
    """Of the text the current generation was started with."""
    retry_count: int = 0
    failures: int = 0
    """Board calls for this row that failed in a row; resets with the first that works."""
    verify: bool = False
    """A query disagreed with this row: the next look begins with a GET."""
    hint_at: datetime | None = None
    """When the query began that last showed this card in Todo."""
    snapshot: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """What the card asks for, as last seen."""
    rank: float = 0.0
    """Priority as a sort key, lowest first."""
    position: int = 0
    """In the board's answer: boards keep minutes, so many cards are equally old."""
    created_at: datetime
    shown: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """What has been shown to people of the current ending: {"result": "sent" | "done", "comment": ...}."""
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
    """See hermes.model.claim.WriteKind."""
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
    alone_since: datetime | None = None
    """Start of the first whole poll, since we last started, that showed no other installation."""
    queried_at: datetime | None = None
    """Start of the last whole poll."""
    answered_at: datetime | None = None
    """When its answer was recorded: what it showed is used as a hint for a while from then on."""
    stopped_reason: str | None = None
    """Why nothing is claimed, in plain words: another installation was seen. A person decides (`board adopt`)."""
    stopped_at: datetime | None = None
    problem: str | None = None
    """A missing column or a refused credential, exactly. Cleared by the next poll that works."""
    problem_at: datetime | None = None
