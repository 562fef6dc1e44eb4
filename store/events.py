"""Events: fired once, taken by one wait or kept for one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, bindparam, case, func, insert, or_, select, update
from sqlalchemy import delete as remove

from hermes.crash_points import CrashPoint, reach
from hermes.errors import EventIdReused, TooManyKept
from hermes.model.event import MAX_EVENT_ID, Event, Fired, NewEvent, OpenWait, checked_pair
from hermes.model.run import RunState
from hermes.model.step import StepState
from store.pairs import lock_pairs
from store.prepared import Prepared
from store.tables.events import EVENTS, WAITS
from store.tables.runs import RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_OF_PAIR = (
    EVENTS.c.namespace == bindparam("b_namespace"),
    EVENTS.c.name == bindparam("b_name"),
    EVENTS.c.instance_id == bindparam("b_instance"),
)
_KEPT = (*_OF_PAIR, EVENTS.c.delivered_at.is_(None), EVENTS.c.expires_at > bindparam("b_now"))
_SAME_ID = Prepared(select(EVENTS).where(*_OF_PAIR, EVENTS.c.event_id == bindparam("b_event")))
_KEPT_COUNT = Prepared(
    select(func.count().label("kept")).select_from(
        select(EVENTS.c.id).where(*_KEPT).limit(bindparam("b_limit")).subquery()
    )
)
_OLDEST_KEPT = Prepared(select(EVENTS).where(*_KEPT).order_by(EVENTS.c.id).limit(1))
_ADD = Prepared(
    insert(EVENTS).returning(EVENTS.c.id),
    "namespace",
    "name",
    "instance_id",
    "event_id",
    "payload",
    "fired_at",
    "fired_by",
    "expires_at",
)
_DELIVERED = Prepared(
    update(EVENTS)
    .where(EVENTS.c.id == bindparam("b_id"), EVENTS.c.delivered_at.is_(None))
    .values(run_id=bindparam("b_run"), seq=bindparam("b_seq"), delivered_at=bindparam("b_now"))
)
_OLDEST_WAIT = Prepared(
    select(WAITS)
    .where(
        WAITS.c.namespace == bindparam("b_namespace"),
        WAITS.c.name == bindparam("b_name"),
        WAITS.c.instance_id == bindparam("b_instance"),
        or_(WAITS.c.until.is_(None), WAITS.c.until > bindparam("b_now")),
    )
    .order_by(WAITS.c.id)
    .limit(1)
)
_CLOSE = Prepared(remove(WAITS).where(WAITS.c.id == bindparam("b_wait")))
_CLOSE_RACE = remove(WAITS).where(
    WAITS.c.run_id == bindparam("b_run"), or_(WAITS.c.id == bindparam("b_wait"), WAITS.c.race.is_(True))
)
_SERVE = Prepared(
    update(STEPS)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        STEPS.c.seq == bindparam("b_seq"),
        STEPS.c.state == StepState.waiting.value,
    )
    .values(state=StepState.done.value, result=bindparam("b_result"), finished_at=bindparam("b_now"))
)
# The row is taken whatever its state is, so that a run that is just going to sleep is waited for and then woken.
_WAKE = Prepared(
    update(RUNS)
    .where(RUNS.c.id == bindparam("b_run"))
    .values(
        due_at=case(
            (
                RUNS.c.state == RunState.waiting.value,
                bindparam("b_now", type_=RUNS.c.due_at.type),
            ),
            else_=RUNS.c.due_at,
        )
    )
)
_OVER = (
    select(EVENTS.c.id)
    .where(EVENTS.c.expires_at <= bindparam("b_before"))
    .order_by(EVENTS.c.expires_at)
    .limit(bindparam("b_limit"))
)
GRACE = timedelta(minutes=1)
"""Longer than any transaction: one that found an event still good takes it undisturbed."""


def wake(uow: UnitOfWork, run_id: str) -> None:
    """Due now, if it waits; if it is just going to sleep, then once it does."""
    uow.changes_one(_WAKE, {"b_run": run_id, "b_now": uow.now})
    uow.wakes()


def serve(uow: UnitOfWork, event: Event, run_id: str, seq: int) -> None:
    """A wait takes an event: its step is done with the payload."""
    about = {"b_id": event.id, "b_run": run_id, "b_seq": seq, "b_now": uow.now}
    served = {**about, "b_result": event.payload_json or "null"}
    if not (uow.changes_one(_DELIVERED, about) and uow.changes_one(_SERVE, served)):
        raise RuntimeError(f"event {event.id} or step {seq} of run {run_id} is taken")  # excluded by the pair's lock
    note(
        uow,
        run_id,
        "event",
        seq,
        name=event.name,
        instance_id=event.instance_id,
        event=event.id,
        event_id=event.event_id,
        fired_at=event.fired_at.isoformat(),
        fired_by=event.fired_by,
    )


def oldest_kept(uow: UnitOfWork, namespace: str, name: str, instance_id: str) -> Event | None:
    """Under the pair's lock."""
    about = {"b_namespace": namespace, "b_name": name, "b_instance": instance_id, "b_now": uow.now}
    row = uow.row(_OLDEST_KEPT, about)
    return None if row is None else _event_of(row)


class EventStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def fire(self, new: NewEvent, *, max_kept: int) -> Fired:
        checked_pair(new.namespace, new.name, new.instance_id)
        if new.event_id is not None and not (new.event_id.strip() and len(new.event_id) <= MAX_EVENT_ID):
            raise ValueError(f"an event id has 1 to {MAX_EVENT_ID} characters: {new.event_id[:60]!r}")
        uow = self._uow
        lock_pairs(uow, new.namespace, [(new.name, new.instance_id)])
        about = {"b_namespace": new.namespace, "b_name": new.name, "b_instance": new.instance_id, "b_now": uow.now}
        if new.event_id is not None:
            same = uow.row(_SAME_ID, {**about, "b_event": new.event_id})
            if same is not None:
                return _again(new, same)
        wait = uow.row(_OLDEST_WAIT, about)
        if wait is None and uow.row(_KEPT_COUNT, {**about, "b_limit": max_kept}).kept >= max_kept:
            raise TooManyKept(
                f"{max_kept:,} events {new.name!r} for {new.instance_id!r} are kept already and nobody takes them"
            )
        event = self._add(new)
        if wait is None:
            return Fired(event.id, duplicate=False, run_id=None, seq=None, kept_until=event.expires_at)
        if wait.race:
            uow.connection.execute(_CLOSE_RACE, {"b_run": wait.run_id, "b_wait": wait.id})
        else:
            uow.changes_one(_CLOSE, {"b_wait": wait.id})
        serve(uow, event, wait.run_id, wait.seq)
        reach(CrashPoint.event_stored)
        wake(uow, wait.run_id)
        return Fired(event.id, duplicate=False, run_id=wait.run_id, seq=wait.seq, kept_until=None)

    def _add(self, new: NewEvent) -> Event:
        values: dict[str, Any] = {
            "namespace": new.namespace,
            "name": new.name,
            "instance_id": new.instance_id,
            "event_id": new.event_id,
            "fired_at": self._uow.now,
            "fired_by": new.fired_by,
            "expires_at": self._uow.now + new.ttl,
        }
        number = self._uow.row(_ADD, {**values, "payload": new.payload_json}).id
        return Event(id=number, payload_json=new.payload_json, run_id=None, seq=None, delivered_at=None, **values)

    def find(
        self,
        *,
        namespace: str | None = None,
        name: str | None = None,
        instance_id: str | None = None,
        kept: bool | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[Event]:
        query = select(EVENTS).order_by(EVENTS.c.id.desc()).limit(limit)
        wanted = ((EVENTS.c.namespace, namespace), (EVENTS.c.name, name), (EVENTS.c.instance_id, instance_id))
        query = query.where(*[column == value for column, value in wanted if value is not None])
        if kept is not None:
            query = query.where(EVENTS.c.delivered_at.is_(None) if kept else EVENTS.c.delivered_at.is_not(None))
        if before is not None:
            query = query.where(EVENTS.c.id < before)
        return [_event_of(row) for row in self._uow.connection.execute(query)]

    def waits(
        self, *, namespace: str | None = None, name: str | None = None, instance_id: str | None = None, limit: int = 50
    ) -> list[OpenWait]:
        query = (
            select(WAITS, RUNS.c.key.label("run_key"), RUNS.c.function)
            .join(RUNS, RUNS.c.id == WAITS.c.run_id)
            .order_by(WAITS.c.id)
            .limit(limit)
        )
        wanted = ((WAITS.c.namespace, namespace), (WAITS.c.name, name), (WAITS.c.instance_id, instance_id))
        query = query.where(*[column == value for column, value in wanted if value is not None])
        return [
            OpenWait(
                run_id=row.run_id,
                run_key=row.run_key,
                function=row.function,
                seq=row.seq,
                namespace=row.namespace,
                name=row.name,
                instance_id=row.instance_id,
                since=row.since,
                until=row.until,
            )
            for row in self._uow.connection.execute(query)
        ]

    def prune(self, limit: int) -> int:
        execute = self._uow.connection.execute
        over = list(execute(_OVER, {"b_before": self._uow.now - GRACE, "b_limit": limit}).scalars())
        return execute(remove(EVENTS).where(EVENTS.c.id.in_(over))).rowcount if over else 0


def _again(new: NewEvent, same: Row[Any]) -> Fired:
    if same.payload != new.payload_json:
        raise EventIdReused(
            f"event id {new.event_id!r} was fired for {new.name!r}, {new.instance_id!r} before, with another payload"
        )
    kept_until = same.expires_at if same.delivered_at is None else None
    return Fired(same.id, duplicate=True, run_id=same.run_id, seq=same.seq, kept_until=kept_until)


def _event_of(row: Row[Any]) -> Event:
    return Event(
        id=row.id,
        namespace=row.namespace,
        name=row.name,
        instance_id=row.instance_id,
        event_id=row.event_id,
        payload_json=row.payload,
        fired_at=row.fired_at,
        fired_by=row.fired_by,
        expires_at=row.expires_at,
        run_id=row.run_id,
        seq=row.seq,
        delivered_at=row.delivered_at,
    )
