"""A card of a task board as Hermes sees it, and the values Hermes writes to one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypedDict

from hermes.model.json import JSON


class CardStatus(StrEnum):
    """What a status option means to Hermes. Options it was not told about are `other`."""

    todo = "todo"
    in_progress = "in_progress"
    complete = "complete"
    failed = "failed"
    attention = "attention"
    other = "other"


@dataclass(frozen=True, slots=True)
class Card:
    id: str
    url: str
    title: str
    status: CardStatus
    status_name: str | None
    priority: str | float | None
    priority_rank: float
    """Sort key, lowest first; no priority is `inf`."""
    description: str
    created_at: datetime
    edited_at: datetime
    edited_by: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    claim_expires_at: datetime | None
    run_id: str | None
    completed_at: datetime | None
    retry_count: int
    last_error: str | None
    in_trash: bool
    properties: Mapping[str, JSON] = field(default_factory=dict)
    """Every readable column by its name on the board, plain JSON."""

    @property
    def text_hash(self) -> str:
        """Changes when a person changes what is asked for: title or description."""
        return hashlib.sha256(f"{self.title}\x00{self.description}".encode("utf-8", "surrogatepass")).hexdigest()


class CardValues(TypedDict, total=False):
    """One write to a card. A key that is absent is left alone, None clears."""

    status: CardStatus
    claimed_by: str | None
    run_id: str | None
    claimed_at: datetime | None
    claim_expires_at: datetime | None
    completed_at: datetime | None
    retry_count: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ProtocolTimes:
    """Parameters of the claim protocol for one kind of board; the letters are those of DESIGN.md section 6."""

    guard: timedelta
    """W: a shared claim acknowledged later than this after its GET is given back by its maker."""
    settle: timedelta
    """Wait between a shared claim and its read-back; longer than W plus how stale a read may be."""
    wait_out: timedelta
    """Z: after a write of unknown outcome nobody writes the page for this long."""
    hint_age: timedelta
    """How long a query row may be used as a candidate before the board is asked again."""


NOTION_TIMES = ProtocolTimes(
    guard=timedelta(seconds=10),
    settle=timedelta(seconds=12),
    wait_out=timedelta(seconds=65),
    hint_age=timedelta(seconds=20),
)
