"""The object lease of a card: its states, a hold on it, and what a board as a whole is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hermes.model.json import JSON


class ClaimState(StrEnum):
    """Where a card stands with us. Who moves them and what a crash at each point does: hermes/claim/PROTOCOL.md."""

    idle = "idle"
    """Seen once, not wanted now."""
    candidate = "candidate"
    """A query showed it in Todo and the poll wants it."""
    claiming = "claiming"
    """A claim was logged; whether the board shows it is for the holder, or after its hold a GET, to say."""
    settling = "settling"
    """Shared protocol: claimed in time, waiting to read it back."""
    claimed = "claimed"
    """Its run exists and is ours: works, sleeps, or has ended and is not yet shown."""
    backoff = "backoff"
    """Exclusive mode: shown as Todo again until its run's next delivery."""
    done = "done"
    """The ending of this generation is shown, or a person took the card away."""
    gone = "gone"
    """Trashed, deleted, or no longer shared."""


OPEN_STATES = (ClaimState.claiming, ClaimState.settling, ClaimState.claimed, ClaimState.backoff)


class WriteKind(StrEnum):
    claim = "claim"
    extend = "extend"
    retry = "retry"
    finish = "finish"
    release = "release"
    result = "result"
    comment = "comment"


@dataclass(frozen=True, slots=True)
class CardInput:
    """What a card asks for: the argument of a card's function. It does not change while the run lives."""

    id: str
    url: str
    title: str
    description: str
    body: str
    priority: str | float | None
    properties: dict[str, JSON]
    generation: int
    board: str


@dataclass(frozen=True, slots=True)
class CardHold:
    """One process's exclusive work on a card's row, until `held_until`. Writes carry the fence."""

    board: str
    card_id: str
    poll_id: str
    state: ClaimState
    generation: int
    run_id: str | None
    fence: int
    held_until: datetime
    due_at: datetime | None
    board_expires_at: datetime | None
    claimed_at: datetime | None
    settled_at: datetime | None
    text_hash: str
    retry_count: int
    failures: int
    hint_at: datetime | None = None
    verify: bool = False
    """Somebody suspects that a person has touched the card: GET it."""
    shown: dict[str, JSON] = field(default_factory=dict)
    note: str | None = None
    snapshot: dict[str, JSON] = field(default_factory=dict)
    rank: float = 0.0


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    kind: WriteKind
    wanted: dict[str, JSON]
    sent_at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class BoardState:
    board: str
    name: str
    alone_since: datetime | None
    queried_at: datetime | None
    answered_at: datetime | None
    stopped_reason: str | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A card as anyone may read it in our database."""

    board: str
    card_id: str
    poll_id: str
    state: ClaimState
    generation: int
    run_id: str | None
    title: str
    url: str
    note: str | None
    board_expires_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """How one poll claims cards of a board."""

    poll_id: str
    condition_version: str
    priority: float = 0.0
    lease: timedelta = timedelta(minutes=15)
    max_attempts: int = 3
    """Deliveries of a card's run before it is Failed."""
    max_concurrent: int = 1
    max_open: int = 20
    at_once: bool = True
    """Claim the next card when one ends, not at the next tick."""
    restart_on_edit: bool = True
    read_body: bool = False
    write_result: bool = True
    comment_on: frozenset[str] = frozenset({"failed", "parked"})
    """Endings and moments a comment is written for: succeeded, refused, failed, parked, cancelled, retry, snooze."""
    shared: bool = False
    """Several installations serve the board: always the five-call protocol."""
