"""A person decides, in time or not at all."""

from __future__ import annotations

import logging
import shlex
from datetime import timedelta

from billing import send_batch
from pydantic import BaseModel

from hermes.durable import Event, Refused, WaitTimedOut, command, function, wait_for_event


class Decision(BaseModel):
    approved: bool
    by: str
    note: str = ""


SPENDING_DECIDED = Event("SPENDING_DECIDED", Decision)


@command
def tell_approvers(request: str, amount: int) -> None:
    """Yours sends a mail; what it must say is how to answer."""
    payload = shlex.quote('{"approved": true, "by": "Ada"}')
    answer = f"hermes-poll fire SPENDING_DECIDED {shlex.quote(request)} --json-payload {payload}"
    logging.getLogger(__name__).warning("%s asks for %s. To approve: %s", request, amount, answer)


@function
async def spend(request: str, amount: int, within: timedelta = timedelta(days=3)) -> str | Refused:
    await tell_approvers(request, amount)
    try:
        decision = await wait_for_event(SPENDING_DECIDED, request, timeout=within)
    except WaitTimedOut:
        return Refused(f"Nobody decided about {request} within {within}.")
    if not decision.approved:
        return Refused(f"{decision.by} refused {request}. {decision.note}".strip())
    receipt = await send_batch(f"spending {request}")
    return f"{decision.by} approved {request}: batch {receipt}"
