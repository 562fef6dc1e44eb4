"""What people ask across tables: counts, searches and lists. Reads only; decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from hermes.model.claim import BoardState, ClaimRecord, ClaimState
from hermes.model.json import JSON
from hermes.model.run import Run, RunKind, RunState

OVERDUE_LEASES = 3
"""A run that is due, and whose worker is not to be seen for so many leases, is stuck."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs: all that is said must hold."""

    states: tuple[RunState, ...] = ()
    kinds: tuple[RunKind, ...] = ()
    poll_id: str | None = None
    object_id: str | None = None
    function: str | None = None
    error: str | None = None
    """Stands in its error or reason, whatever the case."""
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    """For as long it is as it is now: ended, waiting, ready."""
    stuck_lease: timedelta | None = None
    """Only what somebody should have gone on with by now (see `Survey.runs`); by the length of a lease."""
    unknown_to: frozenset[str] | None = None
    """Only what is due and whose function is none of these."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One thing that a waiting run waits for."""

    seq: int
    what: str
    """event, delay, run, attempt"""
    name: str
    about: str | None
    """Of an event its instance; of a run its id."""
    since: datetime | None
    until: datetime | None
    """None: for ever."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A result of a former holder's attempt, which came late."""

    seq: int
    attempt: int
    name: str
    result_json: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class BoardWrite:
    """A row of the board log."""

    run_id: str | None
    fence: int
    kind: str
    wanted: Mapping[str, JSON]
    sent_at: datetime
    outcome: str
    answered_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StuckCard:
    """A card's row that somebody should have looked at by now."""

    card: ClaimRecord
    due_at: datetime
    failures: int
    """Board calls for it that failed in a row."""
    unknown_until: datetime | None
    """Nobody writes the page before: a write may still land."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A credential that may not call now."""

    credential: str
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """What is still to be done until an instant."""

    running: int
    """Runs that the asked-for worker drives now."""
    runs_due: int
    cards_due: int
    """Cards that must be looked at: a claim under way, an ending to be shown, a retry."""
    candidates: Mapping[str, int]
    """Cards waiting to be claimed, by poll."""
    changed_at: datetime | None
    """Newest change of a run or a card."""

    @property
    def busy(self) -> bool:
        return bool(self.running or self.runs_due or self.cards_due)


class Survey(Protocol):
    def find_runs(self, text: str, limit: int = 20) -> Sequence[Run]:
        """By id, key, beginning of an id, card id, title or part of it: those of the first of these that finds any,
        newest first."""
        ...

    def runs(self, wanted: RunFilter, limit: int, *, oldest: bool = False, after: Run | None = None) -> list[Run]:
        """Newest first, or `oldest` first; from `after` on. Stuck are: running, and the lease has been over for a
        lease; ready or waiting, and due since OVERDUE_LEASES; waiting without a due time, and nothing is left that
        could wake it; held, and no card will release it."""
        ...

    def runs_by_state(self) -> Mapping[RunState, int]:
        """Without effects."""
        ...

    def waits_of(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[WaitFor]]: ...

    def receipts(self, run_id: str) -> Sequence[Receipt]: ...

    def find_cards(self, text: str, limit: int = 20) -> Sequence[ClaimRecord]:
        """By id, title or part of it, as `find_runs`."""
        ...

    def titles(self, card_ids: Sequence[str]) -> Mapping[str, str]: ...

    def awaiting(self, run_id: str) -> Sequence[str]:
        """Runs that have a step which awaits this one."""
        ...

    def card_of_run(self, run_id: str) -> ClaimRecord | None:
        """The card that the run owns now; None when its card has gone on without it."""
        ...

    def card(self, card_id: str) -> ClaimRecord | None: ...

    def board_log(self, card_id: str, run_id: str | None = None, limit: int = 200) -> Sequence[BoardWrite]:
        """Oldest first."""
        ...

    def boards(self) -> Sequence[BoardState]: ...

    def cards_by_state(self) -> Mapping[str, Mapping[ClaimState, int]]:
        """Counts by poll."""
        ...

    def stuck_cards(self, due_before: datetime) -> Sequence[StuckCard]: ...

    def pauses(self) -> Sequence[Pause]: ...

    def count_runs(self, state: str) -> int: ...

    def ended_since(self, instant: datetime) -> Sequence[Run]:
        """Runs that nobody awaits, oldest ending first."""
        ...

    def work_left(self, owner: str, functions: Collection[str], until: datetime) -> WorkLeft: ...
