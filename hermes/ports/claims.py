"""Statements on object leases, the board log and the boards, inside one unit of work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from hermes.model.card import Card
from hermes.model.claim import BoardState, CardHold, ClaimRecord, ClaimState, LoggedWrite, WriteKind
from hermes.model.json import JSON


class ClaimStatements(Protocol):
    # boards
    def board(self, board: str) -> BoardState: ...

    def note_board(self, board: str, **changes: Any) -> None:
        """Create or change the board's row."""
        ...

    # what queries say
    def records(self, board: str, card_ids: Sequence[str]) -> dict[str, CardHold]:
        """Rows as they stand; the holds in it hold nothing (fence as stored)."""
        ...

    def offer(
        self,
        board: str,
        poll_id: str,
        card: Card,
        snapshot: Mapping[str, JSON],
        hint_at: datetime,
        *,
        position: int = 0,
    ) -> bool:
        """Make a Todo card a candidate (or refresh one). False if its row is neither idle nor candidate.
        `position`: in the board's answer, for cards of one priority and one minute."""
        ...

    def offer_again(self, board: str, card_ids: Sequence[str], hint_at: datetime) -> None:
        """The same for candidates that stand as they stood: in one statement."""
        ...

    def reopen(self, hold: CardHold, card: Card, snapshot: Mapping[str, JSON], *, wanted: bool = True) -> None:
        """A done or gone card was asked for again by a person: a candidate of the next generation, if it is wanted."""
        ...

    def withdraw_unseen(self, board: str, queried_at: datetime) -> int:
        """Candidates that the whole poll begun at `queried_at` did not show are idle again."""
        ...

    def verify(self, board: str, card_id: str) -> None:
        """A query disagrees with the row: it is due now, for a GET."""
        ...

    def verify_unseen(self, board: str, queried_at: datetime, seen: Collection[str]) -> int:
        """Claimed cards that the whole poll begun at `queried_at` should have shown and did not: due now, for a GET."""
        ...

    def waiting(self, poll_id: str) -> int:
        """Candidates of the poll, fresh or not."""
        ...

    def newest_hint(self, poll_id: str, board: str) -> datetime | None:
        """Newest `hint_at` of the poll's candidates on the board; None when it has none."""
        ...

    # holds
    def open_count(self, poll_id: str) -> int: ...

    def claimed_since(self, poll_id: str, instant: datetime) -> int:
        """Cards of the poll claimed at or after `instant`."""
        ...

    def reserve(
        self, board: str, poll_id: str, run_id: str, holder: str, held_until: datetime, *, fresh_after: datetime
    ) -> CardHold | None:
        """Take the first fresh candidate of the board for claiming: fence + 1, state claiming, and a generation that
        the card has had on no board."""
        ...

    def any_due(self, boards: Sequence[str]) -> bool:
        """Whether `hold_due` would find one: a read, so that idle desks write nothing."""
        ...

    def hold_due(self, held_until: Mapping[str, datetime], holder: str) -> CardHold | None:
        """Take the row that has been due longest, unless held by another or waiting out an unknown write.
        `held_until`: how long the hold lasts, by board."""
        ...

    def hold_one(self, board: str, card_id: str, holder: str, held_until: datetime) -> CardHold | None: ...

    def update(self, hold: CardHold, **changes: Any) -> None:
        """Change the held row. Raises `StaleHold` when somebody else has taken it meanwhile."""
        ...

    def let_go(self, hold: CardHold, *, due_at: datetime | None, **changes: Any) -> None:
        """Change the row and end the hold. A look that was asked for meanwhile stays due. Raises `StaleHold`."""
        ...

    # the board log
    def log(self, hold: CardHold, kind: WriteKind, wanted: Mapping[str, JSON], held_until: datetime) -> int:
        """Record a write before it is sent, under the hold's fence, and hold the row until the write can no longer
        land late. Raises `StaleHold`."""
        ...

    def log_outcome(self, log_id: int, outcome: str, error: str | None = None) -> None: ...

    def log_of(self, board: str, card_id: str, limit: int = 50) -> list[LoggedWrite]:
        """Newest first."""
        ...

    # runs and people
    def run_changed(self, run_id: str) -> None:
        """The run of a card ended, slept or is to be delivered again: the card's row is due now."""
        ...

    def resume(self, run_id: str) -> bool:
        """The run was resumed by hand and is held: its card is to be claimed again for it. False: it has no card."""
        ...

    def list(self, *, states: Sequence[ClaimState] = (), board: str | None = None) -> list[ClaimRecord]: ...


class StaleHold(Exception):
    """Another process holds the card's row now: stop, write nothing."""
