"""What is done with a card. Replace it with your own; `polls/*.yaml` name the function as `team_tasks.work`."""

from __future__ import annotations

from hermes.durable import Refused, command, function
from hermes.model.claim import CardInput


@command(effect="none")
def count_words(text: str) -> int:
    """A step: its result is recorded once and it is not run again after a crash."""
    return len(text.split())


@function
async def work(card: CardInput) -> str | Refused:
    text = card.description.strip() or card.title.strip()
    if not text:
        return Refused("The card says nothing: give it a title or a description.")
    words = await count_words(text)
    return f"Read {words} words. Put what a card should really do into config/team_tasks.py."
