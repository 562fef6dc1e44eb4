"""How a run leaves its worker: it hibernates, is delivered again, ends or parks. Each is one conditional update, and
what an ending means for the runs that await it commits with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, and_, bindparam, case, delete, select, update

from hermes.errors import LeaseLost
from hermes.model.run import Lease, RunError, RunState
from hermes.model.step import StepKind, StepState
from hermes.ports.pending import NOTHING, Pending
from store import timeline
from store.child_endings import FAILED_STEP, settle
from store.holding import HELD, LET_GO, held_by, in_state
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
_DUE = update(RUNS).where(RUNS.c.id == bindparam("b_run"), in_state(RunState.waiting)).values(due_at=bindparam("b_due"))
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
_CONTINUE = Prepared(
    update(RUNS)
    .where(HELD)
    .values(
        state=RunState.ready.value,
        function=bindparam("b_function"),
        args=bindparam("b_args"),
        base_seq=bindparam("b_seq"),
        continued=RUNS.c.continued + 1,
        deliveries=0,
        crashes=0,
        failed_step=None,
        error_kind=None,
        error_message=None,
        error_trace=None,
        reason=None,
        due_at=bindparam("b_now"),
        changed_at=bindparam("b_now"),
        **LET_GO,
    )
    .returning(RUNS.c.place_group, RUNS.c.continued)
)
_FORGET_STEPS = delete(STEPS).where(STEPS.c.run_id == bindparam("b_run"))
CONTINUED = "continued"
_THIS_STEP = (STEPS.c.run_id == bindparam("b_run"), STEPS.c.seq == bindparam("b_seq"))
# No due time: nobody but a person can say how it goes on.
_MARK_UNKNOWN = update(STEPS).where(*_THIS_STEP).values(state=StepState.unknown.value, due_at=None)
_WHEN = select(STEPS.c.kind, STEPS.c.state, STEPS.c.due_at).where(
    STEPS.c.run_id == bindparam("b_run"), STEPS.c.seq.in_(bindparam("b_seqs", expanding=True))
)
_SLEEPS = (StepState.waiting, StepState.retry, StepState.unknown, StepState.lost)


class EndingStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def hibernate(
        self,
        lease: Lease,
        due_at: datetime | None,
        reason: str,
        *,
        awaits: Sequence[int] = (),
        pending: Pending = NOTHING,
        what: str = "wait",
    ) -> None:
        uow = self._uow
        record_pending(uow, lease.run_id, pending)
        if awaits:
            due_at = self.sleep_until_any(lease, reason, awaits)
        else:
            self.sleep(lease, due_at, reason)
        step = awaits[0] if len(awaits) == 1 else None
        note(uow, lease.run_id, what, step, until=due_at.isoformat() if due_at else None, reason=reason)

    def sleep_until_any(self, lease: Lease, reason: str, awaits: Sequence[int]) -> datetime | None:
        """Until the first of these steps is due, or ends by another hand. Returns when that is at the latest."""
        due_at, by_clock = self._when_due(lease.run_id, awaits)
        stopping = self.sleep(lease, due_at, reason)
        if not by_clock and not stopping:
            # Asked again now that the run is seen to sleep: who ends one of them from now on wakes it, and who did so
            # before is seen here.
            due_at, _ = self._when_due(lease.run_id, awaits)
            about = {"b_run": lease.run_id, "b_due": due_at}
            self._uow.connection.execute(_DUE, about)
            if due_at is not None and due_at <= self._uow.now:
                self._uow.wakes()
        return due_at

    def _when_due(self, run_id: str, seqs: Sequence[int]) -> tuple[datetime | None, bool]:
        """The earliest; now, when one of them is over already. And whether only the clock can end them."""
        steps = self._uow.connection.execute(_WHEN, {"b_run": run_id, "b_seqs": list(seqs)}).all()
        by_clock = all(step.kind in (StepKind.delay, StepKind.command) for step in steps)
        if any(step.state not in _SLEEPS for step in steps):
            return self._uow.now, by_clock
        return min((step.due_at for step in steps if step.due_at is not None), default=None), by_clock

    def sleep(self, lease: Lease, due_at: datetime | None, reason: str) -> bool:
        """The update alone, for statements that say in the timeline themselves why the run waits. Returns whether the
        run was asked to stop: then it is due now."""
        row = self._uow.row(_HIBERNATE, {**held_by(lease), "b_due": due_at, "b_reason": reason, "b_now": self._uow.now})
        if row is None:
            raise LeaseLost(lease)
        if row.cancel_reason is not None:
            # It was asked to stop while it ran: whoever leases it next ends it.
            self._uow.connection.execute(_DUE, {"b_run": lease.run_id, "b_due": self._uow.now})
            self._uow.wakes()
        self._leave(lease.run_id, row)
        return row.cancel_reason is not None

    def redeliver(
        self,
        lease: Lease,
        error: RunError,
        due_at: datetime,
        *,
        waited: bool = False,
        failed_step: int | None = None,
        pending: Pending = NOTHING,
    ) -> None:
        uow = self._uow
        row = uow.row(_REDELIVER, {**held_by(lease), **error_values(error, "b_"), "b_due": due_at, "b_now": uow.now})
        if row is None:
            raise LeaseLost(lease)
        record_pending(uow, lease.run_id, pending)
        if waited:
            uow.waits.clear(lease.run_id)
        uow.connection.execute(FAILED_STEP, {"b_run": lease.run_id, "b_seq": failed_step})
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
        waited: bool = False,
        failed_step: int | None = None,
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
        if waited:
            uow.waits.clear(lease.run_id)
        if state is RunState.failed:
            uow.connection.execute(FAILED_STEP, {"b_run": lease.run_id, "b_seq": failed_step})
        if unknown_step is not None:
            uow.connection.execute(_MARK_UNKNOWN, {"b_run": lease.run_id, "b_seq": unknown_step})
        settle(uow, lease.run_id, state, result=result_json, error=error, reason=reason)
        self._leave(lease.run_id, row)
        shown = f"{error.short_kind}: {error.message}" if error else None
        note(uow, lease.run_id, state.value, unknown_step, reason=reason, error=shown)

    def continue_as_new(
        self,
        lease: Lease,
        function: str,
        args_json: str,
        last_seq: int,
        *,
        waited: bool = False,
        pending: Pending = NOTHING,
    ) -> None:
        uow, run_id = self._uow, lease.run_id
        about = {"b_function": function, "b_args": args_json, "b_seq": last_seq, "b_now": uow.now}
        row = uow.row(_CONTINUE, {**held_by(lease), **about})
        if row is None:
            raise LeaseLost(lease)
        record_pending(uow, run_id, pending)
        if waited:
            uow.waits.clear(run_id)
        uow.connection.execute(_FORGET_STEPS, {"b_run": run_id})
        timeline.forget_before_last(uow, run_id, CONTINUED)
        if row.place_group is not None:
            uow.places.release_place(run_id)
        note(uow, run_id, CONTINUED, None, times=row.continued, steps=last_seq)
        uow.wakes()

    def _leave(self, run_id: str, row: Any) -> None:
        if row.place_group is not None:
            self._uow.places.release_place(run_id)
        self._uow.run_changed(run_id, row.kind, row.object_id)
