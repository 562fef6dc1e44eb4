"""What is done with each card: one trivial recorded step."""

from __future__ import annotations

from hermes.durable import command, function
from hermes.model.claim import CardInput


@command
def act(title: str) -> str:
    return f"done: {title}"


@function
async def work(card: CardInput, recorder: str) -> str:
    return await act(card.title)
