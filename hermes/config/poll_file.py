"""`config/polls/<id>.yaml`: one poll. `source` and `action` are read by the model of their `type`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hermes.config.duration import Duration, between
from hermes.config.section import Flag, Id, Section, Text, Whole, Zone
from hermes.schedule.cron import Cron

NOT_YET = {
    "judge": "judging by a model",
    "budget": "budgets",
    "stop.until": "stopping at a date",
    "schedule.misfire.policy.all": "running every missed occurrence",
    "action.type.agent": "the agent action",
}
"""Written in the design and not built: refused by name, never read and ignored."""


class BoardSource(Section):
    """Cards of a board in `hermes.yaml`."""

    type: Literal["board"]
    board: Id


class Misfire(Section):
    grace: Annotated[Duration, between("1s", "7d")] = timedelta(minutes=5)
    """An occurrence that starts later than this is a late one."""
    policy: Literal["once", "skip"] = "once"
    """However many were missed: once runs one late occurrence, skip none."""


def _cron(text: str) -> str:
    Cron.parse(text)
    return text


class Schedule(Section):
    every: Annotated[Duration, between("1s", "366d")] | None = None
    cron: Annotated[str, AfterValidator(_cron)] | None = None
    """Minute, hour, day, month, weekday (1-5 is Monday to Friday), in the timezone."""
    timezone: Zone | None = None
    jitter: Annotated[Duration, between("0s", "1d")] = timedelta(0)
    misfire: Misfire = Misfire()

    @model_validator(mode="after")
    def _one_cadence(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("expected one of `every` and `cron`")
        return self


class Claim(Section):
    lease: Annotated[Duration, between("5s", "1d")] = timedelta(minutes=15)
    """How long a claim holds when nobody extends it."""
    max_attempts: Annotated[Whole, Field(ge=1, le=100)] = 3
    max_concurrent: Annotated[Whole, Field(ge=1, le=1000)] = 1
    """Cards of this poll that run at once."""
    max_open: Annotated[Whole, Field(ge=1, le=10_000)] = 20
    """Cards of this poll that are claimed at once, sleeping ones included."""
    next: Literal["at_once", "on_tick"] = "at_once"
    on_edit: Literal["restart", "keep"] = "restart"
    """A text edited while the card waits in Todo: start afresh, or go on with the old one."""
    read_body: Flag = False
    """Give the page's body to the action: one call more a card."""
    write_result: Flag = True
    """Append the result to the page: one call more a card."""
    comment_on: tuple[Literal["succeeded", "refused", "failed", "parked", "cancelled", "retry", "snooze"], ...] = (
        "failed",
        "parked",
    )
    """Endings and moments that a comment is written for: one call each."""

    @model_validator(mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("comment_on"), list):
            return {**value, "comment_on": tuple(value["comment_on"])}
        return value

    @model_validator(mode="after")
    def _open_holds_concurrent(self) -> Self:
        if self.max_open < self.max_concurrent:
            raise ValueError("max_open may not be less than max_concurrent")
        return self


class Stop(Section):
    max_consecutive_failures: Annotated[Whole, Field(ge=1, le=1000)] = 5
    """Failures in a row that only a person can cure, after which the poll is disabled. Outages never count."""


class PollFile(Section):
    poll: Id
    owner: Id = "default"
    workspace: Id = "default"
    source: dict[str, Any]
    schedule: Schedule
    filter: Text | None = None
    """A CEL expression over `record`, `poll` and `now`: what is acted on."""
    action: dict[str, Any]
    claim: Claim = Claim()
    priority: Annotated[Whole, Field(ge=1, le=9)] = 5
    """1 goes first."""
    stop: Stop = Stop()
    enabled: Flag = True
