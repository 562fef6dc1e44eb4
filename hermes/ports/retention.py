"""What removing the old needs from the store: short transactions, each of which says where the next goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from hermes.model.run import RunState

Cursor = tuple[datetime, str]
"""Instant and id of the last run that was looked at."""


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """What is older goes."""

    timelines: datetime
    """Of runs that succeeded or were refused."""
    runs: datetime
    """The same runs' steps, arguments, timelines and long results."""
    stopped: datetime
    """The same of runs that failed, parked or were cancelled: until then they may be resumed."""
    keys: datetime | None
    """The key and ending of a run whose details are gone; None: never."""
    occurrences: datetime


@dataclass(slots=True)
class Removed:
    """What went, or would."""

    rows: Counter[str] = field(default_factory=Counter)
    """By table. `runs` are those whose details went, `keys` those that went whole."""
    text: int = 0
    """Characters of arguments, results, errors and timelines among it."""

    def add(self, other: Removed) -> None:
        self.rows.update(other.rows)
        self.text += other.text


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run that is over for long, as it was seen."""

    id: str
    state: RunState
    finished_at: datetime
    details: str
    """whole, or going: some of its rows went before."""
    text: int
    """Characters of its own row that would go."""

    @property
    def cursor(self) -> Cursor:
        return self.finished_at, self.id


@dataclass(frozen=True, slots=True)
class Batch:
    removed: Removed
    left: Sequence[OldRun]
    """Of the page, those that did not go into this transaction."""


class Retention(Protocol):
    """At most `rows` rows go in one transaction, however many a run has. `look` counts and changes nothing."""

    def old_runs(self, cutoffs: Cutoffs, after: Cursor | None) -> Sequence[OldRun]:
        """The next page, newest first: so a run goes before those it awaits. To be read before `forget_runs`, outside
        its transaction, since the old may stand among many that stay."""
        ...

    def forget_runs(
        self, page: Sequence[OldRun], cutoffs: Cutoffs, rows: int, *, look: bool = False, going: set[str]
    ) -> Batch:
        """Kept whole are runs that somebody awaits who is kept, stopped runs that await one who lives, and runs that a
        live card stands on. `going`: runs whose steps went in an earlier page; `look` adds to it."""
        ...

    def old_timelines(self, cutoffs: Cutoffs, after: Cursor | None) -> Sequence[OldRun]: ...

    def forget_timelines(
        self, page: Sequence[OldRun], cutoffs: Cutoffs, rows: int, *, look: bool = False, going: set[str]
    ) -> Batch:
        """A look leaves out those that went with their runs."""
        ...

    def forget_keys(
        self, before: datetime, cutoffs: Cutoffs, after: Cursor | None, rows: int, *, look: bool = False
    ) -> tuple[Removed, Cursor | None]:
        """Never one that a card's row still names, or that a run awaits. Returns where it goes on."""
        ...

    def forget_occurrences(self, before: datetime, rows: int, *, look: bool = False) -> Removed: ...

    def forget_board_log(self, cutoffs: Cutoffs, after: int, rows: int, *, look: bool = False) -> tuple[Removed, int]:
        """Of cards that are done with and runs whose details are gone, but for writes without an answer that may still
        say whose hand a value is. Returns the last row looked at, 0 when there are no more."""
        ...

    def forget_events(self, rows: int, *, look: bool = False) -> Removed:
        """Those whose own time is over."""
        ...

    def take_turn(self, owner: str, until: datetime) -> bool:
        """One process at a time removes what is old; again to keep the turn."""
        ...

    def end_turn(self, owner: str) -> None: ...

    def done(self, due_at: datetime) -> bool: ...

    def note_done(self, due_at: datetime, started_at: datetime, owner: str, note: str) -> None:
        """Once for a due time."""
        ...


class RetentionUnit(Protocol):
    @property
    def now(self) -> datetime: ...

    @property
    def retention(self) -> Retention: ...


class RetentionDatabase(Protocol):
    def write(self, *, durable: bool = True) -> AbstractContextManager[RetentionUnit]: ...

    def read(self) -> AbstractContextManager[RetentionUnit]: ...
