"""Starting, finding, holding, cancelling and resuming runs: what anyone but the worker that drives one does to it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, case, func, or_, select, update

from hermes.model.key import checked_key
from hermes.model.run import EffectClass, NewRun, Run, RunState, TimelineEntry
from hermes.model.step import Step, StepState
from hermes.ports.retries import StepRetried
from hermes.ports.runs import Decision, Resumed
from store import timeline
from store.child_endings import settle
from store.holding import in_state
from store.inserting import InsertIgnoring
from store.run_values import run_of
from store.step_retries import retry_step
from store.steps import grant_afresh, steps_of
from store.tables.runs import RECEIPTS, RUNS, STEPS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_add_run = InsertIgnoring(RUNS, "key")
_THIS = RUNS.c.id == bindparam("b_run")
_GET = select(RUNS).where(_THIS)
_BY_KEY = select(RUNS).where(RUNS.c.key == bindparam("b_key"))
_JOIN = (
    update(RUNS)
    .where(RUNS.c.key == bindparam("b_key"))
    .values(duplicates=RUNS.c.duplicates + 1)
    .returning(RUNS.c.id, RUNS.c.details)
)
_HOLD = (
    update(RUNS)
    .where(_THIS, in_state(RunState.ready, RunState.waiting))
    .values(held=True, reason=bindparam("b_reason"), changed_at=bindparam("b_now"))
)
_RELEASE = (
    update(RUNS)
    .where(_THIS, RUNS.c.held.is_(True), in_state(RunState.ready, RunState.waiting))
    .values(
        held=False,
        # A waiting run keeps its own time: it sleeps, or a child wakes it.
        due_at=case(
            (
                RUNS.c.state == RunState.ready.value,
                func.coalesce(bindparam("b_due", type_=RUNS.c.due_at.type), RUNS.c.due_at),
            ),
            else_=RUNS.c.due_at,
        ),
        changed_at=bindparam("b_now"),
    )
)
_CANCEL = (
    update(RUNS)
    .where(_THIS, in_state(RunState.ready, RunState.waiting))
    .values(
        state=RunState.cancelled.value,
        cancel_reason=bindparam("b_reason"),
        reason=bindparam("b_reason"),
        due_at=None,
        finished_at=bindparam("b_now"),
        changed_at=bindparam("b_now"),
    )
    .returning(RUNS.c.place_group, RUNS.c.kind, RUNS.c.object_id)
)
_ASK_TO_STOP = (
    update(RUNS)
    .where(_THIS, in_state(RunState.running))
    .values(cancel_reason=func.coalesce(RUNS.c.cancel_reason, bindparam("b_reason")))
)
_PARK = (
    update(RUNS)
    .where(_THIS, RUNS.c.held.is_(True), in_state(RunState.ready, RunState.waiting))
    .values(
        state=RunState.parked.value,
        held=False,
        reason=bindparam("b_reason"),
        due_at=None,
        finished_at=bindparam("b_now"),
        changed_at=bindparam("b_now"),
    )
)
_OPEN_CHILDREN = select(RUNS.c.id).where(
    RUNS.c.parent_run_id == bindparam("b_run"),
    in_state(RunState.ready, RunState.waiting, RunState.running),
    ~select(STEPS.c.run_id).where(STEPS.c.awaits_run_id == RUNS.c.id, STEPS.c.run_id != bindparam("b_run")).exists(),
)
_STOPPED = and_(in_state(RunState.failed, RunState.parked, RunState.cancelled), RUNS.c.details == "whole")
_RESUME = (
    update(RUNS)
    .where(_THIS, _STOPPED)
    .values(
        state=RunState.ready.value,
        held=bindparam("b_held"),
        due_at=bindparam("b_now"),
        deliveries=0,
        crashes=0,
        finished_at=None,
        error_kind=None,
        error_message=None,
        error_trace=None,
        reason=None,
        cancel_reason=None,
        changed_at=bindparam("b_now"),
    )
    .returning(RUNS.c.kind, RUNS.c.object_id)
)
_IN_DOUBT = (
    select(STEPS.c.seq)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        or_(
            and_(
                STEPS.c.effect == EffectClass.naive.value,
                STEPS.c.state.in_([StepState.started.value, StepState.unknown.value]),
            ),
            # It parked its run: a key that is too old, a look-up that never answered.
            and_(STEPS.c.state == StepState.unknown.value, STEPS.c.due_at.is_(None)),
        ),
        ~select(RECEIPTS.c.run_id).where(RECEIPTS.c.run_id == STEPS.c.run_id, RECEIPTS.c.seq == STEPS.c.seq).exists(),
    )
    # The one that the run was parked for; several may be in doubt where they ran side by side.
    .order_by(STEPS.c.state != StepState.unknown.value, STEPS.c.due_at.is_not(None), STEPS.c.seq)
    .limit(1)
)
_DECIDE = (
    update(STEPS)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        STEPS.c.seq == _IN_DOUBT.scalar_subquery(),
    )
    .values(
        state=bindparam("b_state"),
        result=bindparam("b_result"),
        # A person granted it: the retries are counted afresh, and so is the time for which the key is good.
        attempts_before=STEPS.c.attempts,
        first_attempt_at=None,
        due_at=None,
        error_kind=None,
        error_message=None,
        error_trace=None,
    )
)
_PARKED_CHILDREN = select(STEPS.c.awaits_run_id).where(
    STEPS.c.run_id == bindparam("b_run"), STEPS.c.state == StepState.parked.value
)
_PARKED_PARENTS = select(STEPS.c.run_id).where(
    STEPS.c.awaits_run_id == bindparam("b_run"), STEPS.c.state == StepState.parked.value
)
_AWAIT_AGAIN = (
    update(STEPS)
    .where(STEPS.c.awaits_run_id == bindparam("b_run"), STEPS.c.state == StepState.parked.value)
    .values(state=StepState.waiting.value, error_kind=None, error_message=None)
)


def new_run_id(now: datetime) -> str:
    """Sorts by time, so that new rows stand together; the rest is chance."""
    return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(10)}"


class RunStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def enqueue(self, new: NewRun) -> tuple[str, bool]:
        uow = self._uow
        key = checked_key(new.key)
        run_id = new.run_id or new_run_id(uow.now)
        created = _add_run.into(
            uow,
            {
                "id": run_id,
                "key": key,
                "kind": new.kind.value,
                "function": new.function,
                "args": json.dumps(new.args, ensure_ascii=False),
                "state": RunState.ready.value,
                "held": new.held,
                "hold_on_redelivery": new.hold_on_redelivery,
                "due_at": new.due_at or uow.now,
                "priority": new.priority,
                "place_group": new.place_group,
                "max_deliveries": new.max_deliveries,
                "created_at": uow.now,
                "changed_at": uow.now,
                "poll_id": new.poll_id,
                "condition_version": new.condition_version,
                "object_id": new.object_id,
                "parent_run_id": new.parent_run_id,
                "namespace": new.namespace,
            },
        )
        if not created:
            existing = uow.connection.execute(_JOIN, {"b_key": key}).one()
            if existing.details == "whole":  # else it has no timeline any more, and `duplicates` counts it
                timeline.note(uow, existing.id, "duplicate suppressed", parent=new.parent_run_id)
            return str(existing.id), False
        later = new.due_at.isoformat() if new.due_at is not None and new.due_at > uow.now else None
        timeline.note(uow, run_id, "scheduled" if later else "enqueued", due_at=later, held=new.held or None)
        uow.wakes()
        return run_id, True

    def get(self, run_id: str) -> Run | None:
        row = self._uow.connection.execute(_GET, {"b_run": run_id}).one_or_none()
        return run_of(row) if row is not None else None

    def by_key(self, key: str) -> Run | None:
        row = self._uow.connection.execute(_BY_KEY, {"b_key": checked_key(key)}).one_or_none()
        return run_of(row) if row is not None else None

    def list(
        self,
        *,
        states: Collection[RunState] = (),
        kind: str | None = None,
        poll_id: str | None = None,
        object_id: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[Run]:
        query = select(RUNS).order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc()).limit(limit)
        if states:
            query = query.where(RUNS.c.state.in_([state.value for state in states]))
        for column, wanted in ((RUNS.c.kind, kind), (RUNS.c.poll_id, poll_id), (RUNS.c.object_id, object_id)):
            if wanted is not None:
                query = query.where(column == wanted)
        if before is not None:
            query = query.where(RUNS.c.created_at < before)
        return [run_of(row) for row in self._uow.connection.execute(query)]

    def steps(self, run_id: str) -> Sequence[Step]:
        return steps_of(self._uow, [run_id])[run_id]

    def timeline(self, run_id: str) -> Sequence[TimelineEntry]:
        return timeline.entries(self._uow, run_id)

    def children(self, run_id: str) -> Sequence[Run]:
        query = select(RUNS).where(RUNS.c.parent_run_id == run_id).order_by(RUNS.c.created_at, RUNS.c.id)
        return [run_of(row) for row in self._uow.connection.execute(query)]

    def stranded(self, functions: Collection[str]) -> Sequence[Run]:
        query = (
            select(RUNS)
            .where(
                in_state(RunState.ready, RunState.waiting),
                RUNS.c.due_at <= self._uow.now,
                RUNS.c.function.not_in(sorted(functions)),
            )
            .order_by(RUNS.c.due_at)
        )
        return [run_of(row) for row in self._uow.connection.execute(query)]

    def hold(self, run_id: str, reason: str) -> bool:
        about = {"b_run": run_id, "b_reason": reason, "b_now": self._uow.now}
        if self._uow.connection.execute(_HOLD, about).rowcount != 1:
            return False
        timeline.note(self._uow, run_id, "held", reason=reason)
        return True

    def release_hold(self, run_id: str, due_at: datetime | None = None) -> bool:
        about = {"b_run": run_id, "b_due": due_at, "b_now": self._uow.now}
        if self._uow.connection.execute(_RELEASE, about).rowcount != 1:
            return False
        timeline.note(self._uow, run_id, "released", due_at=due_at.isoformat() if due_at else None)
        self._uow.wakes()
        return True

    def park(self, run_id: str, reason: str) -> bool:
        about = {"b_run": run_id, "b_reason": reason, "b_now": self._uow.now}
        if self._uow.connection.execute(_PARK, about).rowcount != 1:
            return False
        timeline.note(self._uow, run_id, RunState.parked.value, reason=reason)
        self._uow.waits.clear(run_id)
        return True

    def retry_step(self, run_id: str, seq: int, *, held: bool = False, by: str | None = None) -> StepRetried:
        return retry_step(self._uow, run_id, seq, held=held, by=by)

    def cancel(self, run_id: str, reason: str) -> bool:
        uow = self._uow
        about = {"b_run": run_id, "b_reason": reason, "b_now": uow.now}
        row = uow.connection.execute(_CANCEL, about).one_or_none()
        if row is not None:
            timeline.note(uow, run_id, RunState.cancelled.value, reason=reason)
            uow.waits.clear(run_id)
            settle(uow, run_id, RunState.cancelled, reason=reason)
            if row.place_group is not None:
                uow.places.release_place(run_id)
            uow.run_changed(run_id, row.kind, row.object_id)
        elif uow.connection.execute(_ASK_TO_STOP, about).rowcount == 1:
            timeline.note(uow, run_id, "asked to stop", reason=reason)
        else:
            return False
        for child in uow.connection.execute(_OPEN_CHILDREN, {"b_run": run_id}).scalars().all():
            self.cancel(child, reason)
        return True

    def resume(
        self,
        run_id: str,
        *,
        decision: Decision | None = None,
        result_json: str | None = None,
        held: bool = False,
        by: str | None = None,
    ) -> Resumed:
        uow, execute = self._uow, self._uow.connection.execute
        about = {"b_run": run_id, "b_now": uow.now, "b_held": held}
        row = execute(_GET, about).one_or_none()
        if row is None:
            return Resumed.unknown_run
        if RunState(row.state) not in (RunState.failed, RunState.parked, RunState.cancelled):
            return Resumed.not_stopped
        if row.details != "whole":
            return Resumed.forgotten
        children = execute(_PARKED_CHILDREN, about).scalars().all()
        if decision is None and any(execute(_IN_DOUBT, {"b_run": run}).first() for run in (run_id, *children)):
            return Resumed.needs_decision
        resumed = execute(_RESUME, about).one_or_none()
        if resumed is None:
            return Resumed.not_stopped
        timeline.note(uow, run_id, "resumed", decision=decision.value if decision else None, by=by)
        if decision is not None:
            state = StepState.done if decision is Decision.done else StepState.retry
            execute(
                _DECIDE,
                {
                    "b_run": run_id,
                    "b_state": state.value,
                    "b_result": (result_json or "null") if decision is Decision.done else None,
                },
            )
        grant_afresh(uow, run_id)
        for child in children:
            self.resume(child, decision=decision, result_json=result_json, by=by)
        parents = execute(_PARKED_PARENTS, about).scalars().all()
        execute(_AWAIT_AGAIN, about)
        for parent in parents:
            self.resume(parent, by=by)
        uow.run_changed(run_id, resumed.kind, resumed.object_id)
        uow.wakes()
        return Resumed.resumed
