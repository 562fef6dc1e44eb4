"""How a run leaves its worker: it hibernates, is delivered again, ends or parks. Each is one conditional update, and
what an ending means for the runs that await it commits with it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, and_, bindparam, case, select, update

from hermes.errors import LeaseLost
from hermes.model.run import Lease, RunError, RunState
from hermes.model.step import StepState
from hermes.ports.runs import NOTHING, Pending
from store.child_endings import settle
from store.holding import HELD, LET_GO, held_by
from store.prepared import Prepared
from store.run_values import error_values
from store.steps import grant_afresh, record_pending
from store.tables.runs import RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


def _instant(name: str) -> BindParameter[datetime]:
    """Typed, for places where no column beside it says what it is."""
    return bindparam(name, type_=RUNS.c.due_at.type)


_LEFT = (RUNS.c.place_group, RUNS.c.kind, RUNS.c.object_id)
_HIBERNATE = Prepared(
    update(RUNS)
    .where(HELD)
    .values(
        state=RunState.waiting.value,
        due_at=bindparam("b_due"),
        reason=bindparam("b_reason"),
        changed_at=bindparam("b_now"),
        crashes=0,
        **LET_GO,
    )
    .returning(*_LEFT, RUNS.c.cancel_reason)
)
_DUE_NOW = update(RUNS).where(RUNS.c.id == bindparam("b_run")).values(due_at=bindparam("b_now"))
_REDELIVER = Prepared(
    update(RUNS)
    .where(HELD)
    .values(
        state=RunState.ready.value,
        deliveries=RUNS.c.deliveries + 1,
        # One that was asked to stop waits for nothing: whoever leases it next ends it.
        held=and_(RUNS.c.hold_on_redelivery, RUNS.c.cancel_reason.is_(None)),
        due_at=case((RUNS.c.cancel_reason.is_(None), _instant("b_due")), else_=_instant("b_now")),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
        reason=None,
        changed_at=bindparam("b_now"),
        **LET_GO,
    )
    .returning(*_LEFT, RUNS.c.deliveries, RUNS.c.held)
)
_END = Prepared(
    update(RUNS)
    .where(HELD)
    .values(
        state=bindparam("b_state"),
        deliveries=RUNS.c.deliveries + bindparam("b_spent"),
        finished_at=bindparam("b_now"),
        changed_at=bindparam("b_now"),
        due_at=None,
        result=bindparam("b_result"),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
        reason=bindparam("b_reason"),
        **LET_GO,
    )
    .returning(*_LEFT)
)
_THIS_STEP = (STEPS.c.run_id == bindparam("b_run"), STEPS.c.seq == bindparam("b_seq"))
# No due time: nobody but a person can say how it goes on.
_MARK_UNKNOWN = update(STEPS).where(*_THIS_STEP).values(state=StepState.unknown.value, due_at=None)
_WHEN = select(STEPS.c.state, STEPS.c.due_at).where(*_THIS_STEP)


class EndingStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def hibernate(
        self,
        lease: Lease,
        due_at: datetime | None,
        reason: str,
        *,
        awaits: int | None = None,
        pending: Pending = NOTHING,
        what: str = "wait",
    ) -> None:
        uow = self._uow
        record_pending(uow, lease.run_id, pending)
        if awaits is not None:
            due_at = self._when_due(lease.run_id, awaits)
        self.sleep(lease, due_at, reason)
        note(uow, lease.run_id, what, awaits, until=due_at.isoformat() if due_at else None, reason=reason)

    def _when_due(self, run_id: str, seq: int) -> datetime | None:
        step = self._uow.connection.execute(_WHEN, {"b_run": run_id, "b_seq": seq}).one()
        if step.state == StepState.waiting:
            due: datetime | None = step.due_at
            return due
        return self._uow.now  # a child ended between the look at its step and this transaction

    def sleep(self, lease: Lease, due_at: datetime | None, reason: str) -> None:
        """The update alone, for statements that say in the timeline themselves why the run waits."""
        row = self._uow.row(_HIBERNATE, {**held_by(lease), "b_due": due_at, "b_reason": reason, "b_now": self._uow.now})
        if row is None:
            raise LeaseLost(lease)
        if row.cancel_reason is not None:
            # It was asked to stop while it ran: whoever leases it next ends it.
            self._uow.connection.execute(_DUE_NOW, {"b_run": lease.run_id, "b_now": self._uow.now})
            self._uow.wakes()
        self._leave(lease.run_id, row)

    def redeliver(self, lease: Lease, error: RunError, due_at: datetime, *, pending: Pending = NOTHING) -> None:
        uow = self._uow
        row = uow.row(_REDELIVER, {**held_by(lease), **error_values(error, "b_"), "b_due": due_at, "b_now": uow.now})
        if row is None:
            raise LeaseLost(lease)
        record_pending(uow, lease.run_id, pending)
        afresh = grant_afresh(uow, lease.run_id)
        self._leave(lease.run_id, row)
        note(
            uow,
            lease.run_id,
            "redelivery",
            afresh,
            delivery=row.deliveries,
            error=f"{error.short_kind}: {error.message}",
            due_at=due_at.isoformat(),
            held=True if row.held else None,
        )

    def end(
        self,
        lease: Lease,
        state: RunState,
        *,
        result_json: str | None = None,
        error: RunError | None = None,
        reason: str | None = None,
        unknown_step: int | None = None,
        spends_delivery: bool = False,
        pending: Pending = NOTHING,
    ) -> None:
        uow = self._uow
        row = uow.row(
            _END,
            {
                **held_by(lease),
                "b_state": state.value,
                "b_spent": 1 if spends_delivery else 0,
                "b_result": result_json,
                **error_values(error, "b_"),
                "b_reason": reason,
                "b_now": uow.now,
            },
        )
        if row is None:
            raise LeaseLost(lease)
        record_pending(uow, lease.run_id, pending)
        if unknown_step is not None:
            uow.connection.execute(_MARK_UNKNOWN, {"b_run": lease.run_id, "b_seq": unknown_step})
        settle(uow, lease.run_id, state, result=result_json, error=error, reason=reason)
        self._leave(lease.run_id, row)
        shown = f"{error.short_kind}: {error.message}" if error else None
        note(uow, lease.run_id, state.value, unknown_step, reason=reason, error=shown)

    def _leave(self, run_id: str, row: Any) -> None:
        if row.place_group is not None:
            self._uow.places.release_place(run_id)
        self._uow.run_changed(run_id, row.kind, row.object_id)
