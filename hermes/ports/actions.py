"""What a poll does with a card or a change: names a durable function and its arguments, and does nothing itself."""

from __future__ import annotations

from typing import Protocol

from hermes.model.claim import CardInput
from hermes.model.json import JSON


class CardAction(Protocol):
    @property
    def name(self) -> str:
        """Part of the idempotency key of a card's run."""
        ...

    @property
    def function(self) -> str:
        """Registered name of the durable function."""
        ...

    def args(self, card: CardInput) -> dict[str, JSON]:
        """The function's arguments as JSON."""
        ...
