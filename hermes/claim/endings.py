"""What each ending of a run means for its card (the table in DESIGN.md section 5). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from hermes.model.card import CardStatus, CardValues
from hermes.model.run import Run, RunState

PLACE = {
    RunState.succeeded: CardStatus.complete,
    RunState.refused: CardStatus.failed,
    RunState.failed: CardStatus.failed,
    RunState.parked: CardStatus.attention,
    RunState.cancelled: CardStatus.failed,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What people are to see of an ending."""

    values: CardValues
    result: str | None
    comment: str


def ending(run: Run, now: datetime) -> Shown:
    """`run` is final. Text is whole here; the board's adapter fits it to the board's limits."""
    values = CardValues(status=PLACE[run.state], completed_at=now, claim_expires_at=None)
    where = f"Run {run.key}: hermes-poll runs show {run.id}"
    if run.state is RunState.succeeded:
        values["last_error"] = None
        return Shown(values, result_text(run), f"Done.\n{where}")
    reason = why(run)
    values["last_error"] = reason
    return Shown(values, None, f"{reason}\n{where}")


def why(run: Run) -> str:
    """Why it is not Complete, and what to do: for LastError."""
    message = run.error.message if run.error else ""
    if run.state is RunState.refused:
        return run.reason or "Refused without a reason."
    if run.state is RunState.parked:
        return f"Needs attention: {run.reason or message}. Move it back to Todo, or: hermes-poll runs resume {run.id}"
    if run.state is RunState.cancelled:
        return f"Cancelled: {run.reason or run.cancel_reason or 'no reason given'}"
    return f"{message or run.reason or 'Failed'}. After curing it: hermes-poll runs resume {run.id}"


def result_text(run: Run) -> str | None:
    """A function's text as it is; anything else it returned as JSON; nothing for nothing."""
    if run.result is None or run.result == "":
        return None
    if isinstance(run.result, str):
        return run.result
    return "```json\n" + json.dumps(run.result, ensure_ascii=False, indent=2) + "\n```"


def why_again(run: Run) -> str:
    """For a card that will be tried again: what went wrong, and when it goes on."""
    message = run.error.message if run.error else run.reason or "failed"
    when = f", next at {run.due_at:%Y-%m-%d %H:%M:%S} UTC" if run.due_at else ""
    return f"{message} (delivery {run.deliveries} of {run.max_deliveries}{when})"
