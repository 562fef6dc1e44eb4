"""What is done with a card: a durable function. Finished steps are not run again after a crash or a restart."""

from __future__ import annotations

from datetime import timedelta

from hermes.durable import Refused, command, delay, function
from hermes.model.claim import CardInput


@command(effect="none", timeout=timedelta(seconds=30))
def draft(text: str) -> str:
    return f"Draft: {text[:500]}"


@function
async def work(card: CardInput) -> str | Refused:
    if not card.body.strip() and not card.description.strip():
        return Refused("Nothing to do: write the task into the page or its Description.")
    text = await draft(card.body or card.description)
    await delay(timedelta(minutes=1))  # hibernates: no worker is held, a restart does not matter
    return text
