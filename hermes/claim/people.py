"""Whose hand a value on the board is. Pure: the board log explains our own writes, also those that land late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hermes.model.card import Card, CardStatus
from hermes.model.claim import LoggedWrite
from hermes.model.json import JSON


def explained(card: Card, log: Sequence[LoggedWrite], since: datetime | None, wait_out: timedelta) -> bool:
    """True when one of our own writes may have made the page what it is, after `since`.

    A write that was answered had landed by then; only one without an answer can land later, and not later than
    `wait_out` after it was sent. The page must show all that the write says: a person who moves a card changes its
    status and leaves our name where it is."""
    return any(
        write.outcome in ("sent", "unknown")
        and (since is None or write.sent_at + wait_out >= since)
        and _shows(card, write.wanted)
        for write in log
    )


def _shows(card: Card, wanted: Mapping[str, JSON]) -> bool:
    if "status" not in wanted or not _alike(card.status, wanted["status"]):
        return False
    shown = {"claimed_by": card.claimed_by, "run_id": card.run_id, "retry_count": card.retry_count}
    return all((shown[name] or None) == (wanted[name] or None) for name in shown.keys() & wanted.keys())


def _alike(shown: CardStatus, wanted: JSON) -> bool:
    """A board without a status of its own for it shows as Failed what needs attention."""
    return shown == wanted or (wanted == CardStatus.attention and shown is CardStatus.failed)


def moved(card: Card, expected: CardStatus) -> str | None:
    """What a person did to a card that we expect in `expected`, in plain words; None when nothing."""
    if card.in_trash:
        return "the card was put in the trash"
    if card.status is not expected:
        return f"a person moved the card to {card.status_name or 'no status'}"
    return None
