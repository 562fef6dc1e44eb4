"""Statements of the scheduler's loop on the polls table. Built once: building them took longer than the database took
to carry them out."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Update, and_, bindparam, case, func, null, or_, select, update

from hermes.ports.polls import PollStatus
from store.tables.polls import POLLS

RUNNABLE = (PollStatus.active, PollStatus.paused, PollStatus.disabled, PollStatus.off)
"""May be run by hand."""
_COUNTED = ("checked", "matched", "changed", "claimed")


def _given(name: str) -> BindParameter[Any]:
    """A parameter of a statement. Named unlike any column: SQLAlchemy sets columns that a parameter is named after."""
    return bindparam(f"given_{name}")


def giving(**values: Any) -> dict[str, Any]:
    return {f"given_{name}": value for name, value in values.items()}


_MAY_START = and_(
    or_(POLLS.c.lease_owner.is_(None), POLLS.c.lease_until <= _given("now")),
    or_(
        and_(POLLS.c.status == PollStatus.active, POLLS.c.next_start_at <= _given("now")),
        and_(POLLS.c.status.in_(RUNNABLE), POLLS.c.asked_at.is_not(None)),
    ),
)
DUE_COUNT = select(func.count()).select_from(POLLS).where(_MAY_START)
WAITING = (
    select(POLLS)
    .where(_MAY_START)
    .order_by(POLLS.c.asked_at.is_(None), POLLS.c.priority, POLLS.c.next_start_at, POLLS.c.poll_id)
    .limit(_given("size"))
    .offset(_given("passed_over"))
    .with_for_update(skip_locked=True)
)
LEASE = (
    update(POLLS)
    .where(POLLS.c.poll_id == _given("held_poll"), POLLS.c.fence == _given("held_fence"))
    .values(
        lease_owner=_given("owner"),
        lease_until=_given("until"),
        fence=_given("fence"),
        updated_at=_given("now"),
    )
)
_HELD = and_(
    POLLS.c.poll_id == _given("held_poll"),
    POLLS.c.lease_owner == _given("held_owner"),
    POLLS.c.fence == _given("held_fence"),
)
EXTEND = update(POLLS).where(_HELD).values(lease_until=_given("until"))
POSTPONE = (
    update(POLLS)
    .where(_HELD)
    .values(lease_owner=None, lease_until=None, next_start_at=_given("start_at"), updated_at=_given("now"))
)


@cache
def finish_statement(
    *, ok: bool, skipped: bool, by_hand: bool, disabled: bool, cursor: bool, watermark: bool
) -> tuple[Update, tuple[str, ...]]:
    """The statement that ends an occurrence, and the names of what it is given."""
    polls = POLLS.c
    values: dict[str, Any] = {
        "lease_owner": null(),
        "lease_until": null(),
        "next_due_at": _given("next_due_at"),
        "next_start_at": _given("next_start_at"),
        "last_note": _given("note"),
        "occurrence_count": polls.occurrence_count + 1,
        "updated_at": _given("now"),
    }
    for name in _COUNTED:
        values[f"{name}_count"] = polls[f"{name}_count"] + _given(name)
    if not skipped:
        values["last_run_at"] = _given("leased_at")
    if by_hand:
        # Asked for again while it ran: that wish stays.
        values["asked_at"] = case((polls.asked_at == _given("due_at"), null()), else_=polls.asked_at)
    if not ok:
        values["failing_since"] = func.coalesce(polls.failing_since, _given("leased_at"))
        values["failure_count"] = polls.failure_count + 1
        values["fatal_count"] = polls.fatal_count + _given("fatal")
        values["last_error"] = _given("error")
    elif not skipped:
        values["last_ok_at"] = _given("now")
        values |= {"failing_since": null(), "failure_count": 0, "fatal_count": 0, "last_error": null()}
    if disabled:
        values |= {"status": PollStatus.disabled, "disabled_reason": _given("disabled_reason")}
    if cursor:
        values["cursor"] = _given("cursor")
    if watermark:
        values["watermark"] = _given("watermark")
    statement = update(POLLS).where(_HELD).values(**values)
    return statement, tuple(name for name in statement.compile().params if name.startswith("given_"))
