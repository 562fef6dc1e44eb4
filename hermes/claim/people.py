"""Whose hand a value on the board is. Pure: the board log explains our own writes, also those that land late."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hermes.model.card import Card, CardStatus
from hermes.model.claim import LoggedWrite


def explained(status: CardStatus, log: Sequence[LoggedWrite], since: datetime | None, wait_out: timedelta) -> bool:
    """True when one of our own writes may have put `status` there after `since`.

    A write that was answered had landed by then; only one without an answer can land later, and not later than
    `wait_out` after it was sent."""
    for write in log:
        if write.wanted.get("status") != status or write.outcome not in ("sent", "unknown"):
            continue
        if since is None or write.sent_at + wait_out >= since:
            return True
    return False


def moved(card: Card, expected: CardStatus) -> str | None:
    """What a person did to a card that we expect in `expected`, in plain words; None when nothing."""
    if card.in_trash:
        return "the card was put in the trash"
    if card.status is not expected:
        return f"a person moved the card to {card.status_name or 'no status'}"
    return None
