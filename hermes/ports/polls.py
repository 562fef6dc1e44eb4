"""What the database remembers of polls: their state, their versions, and the occurrences that did something."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from hermes.model.json import JSON


class PollStatus(StrEnum):
    active = "active"
    off = "off"
    """`enabled: false` in its file."""
    paused = "paused"
    """By a person, until `resume`."""
    disabled = "disabled"
    """By Hermes after failures that only a person can cure, until `resume` or an edit of its file."""
    removed = "removed"
    """Its file is gone. What it did stays readable."""


@dataclass(frozen=True, slots=True)
class PollDefinition:
    """A poll as its file has it now."""

    poll_id: str
    user_id: str
    workspace_id: str
    priority: int
    enabled: bool
    definition: dict[str, JSON]
    definition_version: str
    condition_version: str
    schedule_version: str
    """When it changes the next due instant is computed afresh."""
    first_due_at: datetime
    first_start_at: datetime


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll as anyone may read it."""

    poll_id: str
    user_id: str
    workspace_id: str
    priority: int
    status: PollStatus
    disabled_reason: str | None
    definition_version: str
    condition_version: str
    next_due_at: datetime | None
    next_start_at: datetime | None
    """`next_due_at` plus jitter or backoff: when it really may start."""
    asked_at: datetime | None
    """Somebody wants it to run now."""
    last_run_at: datetime | None
    last_ok_at: datetime | None
    failing_since: datetime | None
    failure_count: int
    """Failures in a row, of any kind."""
    fatal_count: int
    """Failures in a row that only a person can cure."""
    last_error: str | None
    last_note: str | None
    cursor: str | None
    watermark: datetime | None
    lease_owner: str | None
    lease_until: datetime | None
    fence: int
    occurrence_count: int
    checked_count: int
    matched_count: int
    changed_count: int
    claimed_count: int

    @property
    def health(self) -> str:
        """One word for lists: never `ok` for a poll that fails or has never run."""
        if self.status is not PollStatus.active:
            return self.status.value
        if self.failing_since is not None:
            return "failing"
        return "ok" if self.last_ok_at is not None else "new"


@dataclass(frozen=True, slots=True)
class PollLease:
    """The right to run one occurrence of a poll for a time. Its fence grows with each lease of the poll."""

    poll_id: str
    owner: str
    fence: int
    until: datetime
    due_at: datetime
    start_at: datetime
    by_hand: bool
    leased_at: datetime
    failure_count: int
    fatal_count: int
    cursor: str | None
    watermark: datetime | None

    @property
    def occurrence(self) -> str:
        return f"poll:{self.poll_id}@{self.due_at.isoformat()}"


@dataclass(frozen=True, slots=True)
class OccurrenceEnd:
    """What one occurrence came to, and when the poll is due next."""

    ok: bool
    next_due_at: datetime
    next_start_at: datetime
    record: bool
    """Keep a row of its own: it changed or did something, failed, was late, or was asked for by hand."""
    skipped: bool = False
    """Not run because it was too late (misfire policy `skip`)."""
    fatal: bool = False
    error: str | None = None
    note: str | None = None
    disabled_reason: str | None = None
    """Disables the poll."""
    checked: int = 0
    matched: int = 0
    changed: int = 0
    claimed: int = 0
    cursor: str | None = None
    """None leaves it as it is."""
    watermark: datetime | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due instant of a poll at which something happened."""

    poll_id: str
    due_at: datetime
    state: str
    """ok, failed, skipped."""
    by_hand: bool
    started_at: datetime
    finished_at: datetime
    attempts: int
    """More than one when it failed and was tried again for the same due instant."""
    checked: int
    matched: int
    changed: int
    claimed: int
    error: str | None
    note: str | None
    definition_version: str
    condition_version: str

    @property
    def key(self) -> str:
        return f"poll:{self.poll_id}@{self.due_at.isoformat()}"


@dataclass(frozen=True, slots=True)
class PollChanges:
    """What a synchronisation with the files changed, by poll id."""

    added: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    returned: tuple[str, ...] = field(default=())
    """Removed once, there again: state and cursor are kept."""


class Polls(Protocol):
    """Statements about polls inside one transaction, whose instant is `now`."""

    def sync_definitions(self, definitions: Iterable[PollDefinition]) -> PollChanges:
        """Makes the rows say what the files say. Cursor, counters and a person's pause outlive edits; an edit
        re-enables a disabled poll. Called again with the same definitions it changes nothing."""
        ...

    def lease_due(
        self, owner: str, length: timedelta, limit: int, wanted: Callable[[str, str], bool]
    ) -> list[PollLease]:
        """Up to `limit` polls that are due or asked for and that nobody holds. `wanted(poll_id, definition_version)`
        says which the caller knows."""
        ...

    def extend(self, lease: PollLease, length: timedelta) -> datetime | None:
        """The new end of the lease, or None when it is lost."""
        ...

    def postpone(self, lease: PollLease, start_at: datetime) -> bool:
        """Gives the lease back unused: same occurrence, later start."""
        ...

    def finish(self, lease: PollLease, end: OccurrenceEnd) -> bool:
        """False when the lease is lost: nothing was written."""
        ...

    def run_now(self, poll_id: str) -> bool: ...

    def pause(self, poll_id: str) -> bool: ...

    def resume(self, poll_id: str) -> bool:
        """Of a paused or disabled poll; it is due at once and its failures are forgotten."""
        ...

    def get(self, poll_id: str) -> Poll | None: ...

    def all(self, *, removed: bool = False) -> list[Poll]: ...

    def definition(self, poll_id: str, version: str) -> dict[str, JSON] | None: ...

    def occurrences(self, poll_id: str, limit: int = 20) -> list[Occurrence]:
        """Newest first."""
        ...

    def due_count(self) -> int: ...


class PollUnit(Protocol):
    @property
    def now(self) -> datetime: ...

    @property
    def polls(self) -> Polls: ...


class PollStore(Protocol):
    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[PollUnit]: ...

    def read(self) -> AbstractContextManager[PollUnit]: ...
