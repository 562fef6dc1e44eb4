"""What the claim protocol needs from a task board."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from hermes.errors import Skippable
from hermes.model.card import Card, CardValues, ProtocolTimes


class TaskBoard(Protocol):
    """One board behind one credential. Every call is one HTTP request unless said otherwise, has a total deadline,
    is never retried here when it writes, and raises only `hermes.errors.SourceError`s. A write that has not left by
    `send_by` (boot seconds: the machine may have been suspended) is `Retryable` and never leaves."""

    key: str
    """Stable id of the board (the data source id on Notion): what its cards' leases are kept under."""
    times: ProtocolTimes
    skipped: Sequence[Skippable]
    """Cards of the last `open_cards` that could not be read."""
    incomplete: str | None
    """Why the last `open_cards` did not see everything."""

    @property
    def skew(self) -> timedelta | None:
        """How far the board's clock is ahead of ours, by its last answers; None before the first. Never more than is
        sure: a slow answer is no difference."""
        ...

    def open_cards(self) -> list[Card]:
        """Cards in Todo or InProgress, all pages, sorted by priority then age. A hint: it may lag behind."""
        ...

    def read(self, card_id: str) -> Card:
        """The card as it is now. A trashed card is answered with `in_trash`; raises `Gone` when it cannot be found."""
        ...

    def read_body(self, card_id: str) -> str:
        """The page below the columns, as Markdown."""
        ...

    def write(self, card_id: str, values: CardValues, *, send_by: float | None = None) -> Card:
        """One PATCH, sent once; columns that are gone are left out, unless it claims. Returns the card as answered.
        `Retryable` (and `Conflict`) mean surely not applied; `UnknownOutcome` means it may still land within
        `times.wait_out`."""
        ...

    def write_result(
        self, card_id: str, marker: str, markdown: str, *, again: bool, send_by: float | None = None
    ) -> None:
        """Append a section to the page, chunked to the board's limits: one call for up to 100 blocks. Its heading
        carries `marker`. With `again` (an earlier try may have landed) looks first and appends only the rest."""
        ...

    def comment(self, card_id: str, marker: str, text: str, *, again: bool, send_by: float | None = None) -> None:
        """Add a comment that carries `marker`. With `again`, looks for the marker first: there, it adds nothing."""
        ...
