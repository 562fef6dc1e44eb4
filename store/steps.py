"""Steps of a held run: intents, results, failures, children, and the receipts of those who hold it no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Boolean, and_, bindparam, case, func, or_, select, update

from hermes.crash_points import CrashPoint, reach
from hermes.errors import LeaseLost, StoreError
from hermes.model.run import EffectClass, Lease, NewRun, RunError, RunState
from hermes.model.step import Step, StepKind, StepState
from hermes.ports.pending import NOTHING, NewStep, Pending
from store.child_endings import FAILED_STEP, child_ending
from store.holding import HELD, held_by, lost_or_cancelled, step_in_state
from store.inserting import InsertIgnoring
from store.prepared import Prepared
from store.run_values import error_of, error_values, step_of
from store.tables.runs import RECEIPTS, RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_TOUCH = Prepared(update(RUNS).where(HELD, RUNS.c.cancel_reason.is_(None)).values(failed_step=None))
_PROGRESS = Prepared(update(RUNS).where(HELD).values(crashes=0, failed_step=bindparam("b_failed")))
_THIS = and_(STEPS.c.run_id == bindparam("b_run"), STEPS.c.seq == bindparam("b_seq"))
_AGAIN = Prepared(
    update(STEPS)
    .where(
        _THIS,
        STEPS.c.attempts == bindparam("b_attempt") - 1,
        step_in_state(StepState.started, StepState.unknown, StepState.retry),
    )
    .values(
        state=StepState.started.value,
        attempts=bindparam("b_attempt"),
        fence=bindparam("b_fence"),
        args=bindparam("b_args"),
        started_at=bindparam("b_now"),
        first_attempt_at=func.coalesce(STEPS.c.first_attempt_at, bindparam("b_now")),
        due_at=None,
    )
)
_BEGUN = Prepared(
    select(STEPS.c.attempts).where(
        _THIS,
        STEPS.c.attempts == bindparam("b_attempt"),
        STEPS.c.fence == bindparam("b_fence"),
        STEPS.c.state == StepState.started.value,
    )
)
_FINISH = Prepared(
    update(STEPS)
    .where(
        _THIS,
        STEPS.c.attempts == bindparam("b_attempt"),
        step_in_state(StepState.started, StepState.unknown, StepState.lost),
    )
    .values(
        state=bindparam("b_state"),
        result=bindparam("b_result"),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
        due_at=bindparam("b_due"),
        finished_at=bindparam("b_finished"),
        attempts_before=case((bindparam("b_final", type_=Boolean), STEPS.c.attempts), else_=STEPS.c.attempts_before),
    )
)
_LOOK_LATER = (
    update(STEPS)
    .where(_THIS, step_in_state(StepState.lost))
    .values(due_at=bindparam("b_due", type_=STEPS.c.due_at.type))
)
_STANDS = Prepared(select(STEPS.c.state, STEPS.c.attempts, STEPS.c.due_at).where(_THIS))
_PASSED = Prepared(
    update(STEPS)
    .where(_THIS, STEPS.c.state == StepState.waiting.value)
    .values(state=StepState.done.value, finished_at=bindparam("b_now"))
)
_RECEIPT = Prepared(
    select(RECEIPTS.c.result)
    .where(RECEIPTS.c.run_id == bindparam("b_run"), RECEIPTS.c.seq == bindparam("b_seq"))
    .order_by(RECEIPTS.c.attempt.desc())
    .limit(1)
)
_OF_RUNS = select(STEPS).where(STEPS.c.run_id.in_(bindparam("b_runs", expanding=True))).order_by(STEPS.c.seq)
# Commands side by side may have failed together. What has none left and none to be granted counts all its attempts as
# made before.
_LAST_FAILED = and_(
    STEPS.c.run_id == bindparam("b_run"),
    STEPS.c.seq >= select(RUNS.c.failed_step).where(RUNS.c.id == bindparam("b_run")).scalar_subquery(),
    STEPS.c.state == StepState.failed.value,
)
_AFRESH_COMMAND = (
    update(STEPS)
    .where(
        _LAST_FAILED,
        or_(
            and_(STEPS.c.kind == StepKind.command.value, STEPS.c.attempts_before < STEPS.c.attempts),
            STEPS.c.kind == StepKind.fire.value,
        ),
    )
    .values(state=StepState.retry.value, attempts_before=STEPS.c.attempts, finished_at=None, due_at=None)
    .returning(STEPS.c.seq)
)
_LAST_FAILED_CHILDREN = select(STEPS.c.awaits_run_id).where(_LAST_FAILED, STEPS.c.awaits_run_id.is_not(None))
_AFRESH_CHILDREN = (
    update(STEPS)
    .where(
        _LAST_FAILED,
        select(RUNS.c.id).where(RUNS.c.id == STEPS.c.awaits_run_id, RUNS.c.finished_at.is_(None)).exists(),
    )
    .values(state=StepState.waiting.value, finished_at=None)
    .returning(STEPS.c.seq)
)
_RUN = select(RUNS).where(RUNS.c.id == bindparam("b_run"))
_LOSE = (
    update(STEPS)
    .where(_THIS, step_in_state(StepState.started, StepState.unknown, StepState.retry))
    .values(state=StepState.lost.value, due_at=None)
)
_add_step = InsertIgnoring(STEPS, "run_id", "seq")
_add_receipt = InsertIgnoring(RECEIPTS, "run_id", "seq", "attempt")


def steps_of(uow: UnitOfWork, run_ids: list[str]) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {run_id: [] for run_id in run_ids}
    for row in uow.connection.execute(_OF_RUNS, {"b_runs": run_ids}):
        found[row.run_id].append(step_of(row))
    return found


def record_pending(uow: UnitOfWork, run_id: str, pending: Pending) -> dict[int, Step]:
    """Add the new steps, start children, mark delays that have passed and commands that have lost; returns the new
    steps. The caller's own conditional update stands guard: when the run is not held the transaction is given up."""
    recorded = {new.seq: _record(uow, run_id, new) for new in pending.new}
    for seq in pending.passed:
        _PASSED.change(uow.connection, {"b_run": run_id, "b_seq": seq, "b_now": uow.now})
    lose(uow, run_id, pending.lost)
    if pending.long is not None:
        note(uow, run_id, "long history", steps=pending.long)
    return recorded


def _record(uow: UnitOfWork, run_id: str, new: NewStep) -> Step:
    step = Step(
        run_id,
        new.seq,
        new.kind,
        new.name,
        StepState.done if new.over else StepState.waiting,
        args_json=new.args_json,
        result_json=new.result_json,
        due_at=_due_at(uow.now, new),
    )
    if new.child is not None:
        step = _start(uow, step, new.child)
    if add_step(uow, step):
        _tell(uow, step)
        if step.state is StepState.failed and step.awaits_run_id is not None:
            uow.connection.execute(FAILED_STEP, {"b_run": run_id, "b_seq": step.seq})
        elif step.kind is StepKind.person:  # a resume goes on after it: what failed before is final
            uow.connection.execute(FAILED_STEP, {"b_run": run_id, "b_seq": None})
        return step
    stands = uow.row(_STANDS, {"b_run": run_id, "b_seq": new.seq})  # the transaction is being tried again
    return replace(step, state=StepState(stands.state), due_at=stands.due_at)


def _due_at(now: datetime, new: NewStep) -> datetime | None:
    if new.wait is None:
        return None
    return now + new.wait if new.not_after is None else min(now + new.wait, new.not_after)


def add_step(uow: UnitOfWork, step: Step) -> bool:
    """False when it is there already."""
    return _add_step.into(
        uow,
        {
            "run_id": step.run_id,
            "seq": step.seq,
            "kind": step.kind.value,
            "name": step.name,
            "state": step.state.value,
            "args": step.args_json,
            "result": step.result_json,
            "due_at": step.due_at,
            **error_values(step.error),
            "started_at": uow.now,
            "finished_at": uow.now if step.state in (StepState.done, StepState.failed) else None,
            "awaits_run_id": step.awaits_run_id,
        },
    )


def _tell(uow: UnitOfWork, step: Step) -> None:
    if step.kind is StepKind.delay and step.due_at is not None:
        note(uow, step.run_id, "delay", step.seq, until=step.due_at.isoformat())
    elif step.kind is StepKind.child:
        note(uow, step.run_id, "child", step.seq, name=step.name, run_id=step.awaits_run_id, key=step.args_json)
    elif step.kind is StepKind.race:
        note(uow, step.run_id, "race", step.seq, winner=int(step.result_json or 0))
    elif step.kind is StepKind.person:
        note(uow, step.run_id, "asked a person", step.seq)


def _start(uow: UnitOfWork, step: Step, child: NewRun) -> Step:
    """Start or join the run of a key. One that is over already is known at once."""
    run_id, created = uow.runs.enqueue(child)
    joined = None if created else uow.connection.execute(_RUN, {"b_run": run_id}).one()
    if run_id == step.run_id:
        error = RunError("KeyTaken", f"key {child.key!r} is that of this run itself: it would wait for its own end")
        return replace(step, state=StepState.failed, error=error)
    if joined is not None and joined.function != child.function:
        error = RunError(
            "KeyTaken", f"key {child.key!r} is that of a run of {joined.function}, not of {child.function}"
        )
        return replace(step, state=StepState.failed, error=error)
    state, result, error_ = StepState.waiting, None, None
    if joined is not None and joined.finished_at is not None:
        why = joined.reason or joined.cancel_reason
        state, result, error_ = child_ending(RunState(joined.state), joined.result, error_of(joined), why)
    return replace(step, state=state, result_json=result, error=error_, awaits_run_id=run_id)


def lose(uow: UnitOfWork, run_id: str, commands: Collection[int]) -> None:
    """These have lost their race: nobody tries them again."""
    for seq in commands:
        if uow.connection.execute(_LOSE, {"b_run": run_id, "b_seq": seq}).rowcount == 1:
            note(uow, run_id, "lost its race", seq)


def grant_afresh(uow: UnitOfWork, run_id: str) -> int | None:
    """New attempts for the steps whose failures are the last thing recorded; of children, they are resumed. Returns the
    lowest."""
    execute, about = uow.connection.execute, {"b_run": run_id}
    afresh = list(execute(_AFRESH_COMMAND, about).scalars())
    for child in execute(_LAST_FAILED_CHILDREN, about).scalars().all():
        uow.runs.resume(child)
    # One that was refused, or whose steps are no longer kept, does not go on: waiting for it would never end.
    afresh += execute(_AFRESH_CHILDREN, about).scalars()
    return min(afresh, default=None)


class StepStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def begin_attempt(
        self,
        lease: Lease,
        seq: int,
        name: str,
        *,
        effect: EffectClass,
        args_json: str,
        attempt: int,
        pending: Pending = NOTHING,
    ) -> dict[int, Step]:
        uow = self._uow
        recorded = record_pending(uow, lease.run_id, pending)
        self.hold(lease)
        about = {"b_run": lease.run_id, "b_seq": seq, "b_attempt": attempt, "b_fence": lease.fence}
        if attempt == 1:
            begun = _add_step.into(
                uow,
                {
                    "run_id": lease.run_id,
                    "seq": seq,
                    "kind": StepKind.command.value,
                    "name": name,
                    "state": StepState.started.value,
                    "attempts": 1,
                    "fence": lease.fence,
                    "effect": effect.value,
                    "args": args_json,
                    "first_attempt_at": uow.now,
                    "started_at": uow.now,
                },
            )
        else:
            begun = uow.changes_one(_AGAIN, {**about, "b_args": args_json, "b_now": uow.now})
        if begun:
            note(uow, lease.run_id, "attempt", seq, attempt=attempt, name=name)
        elif uow.row(_BEGUN, about) is None:
            raise StoreError(f"step {seq} of run {lease.run_id} cannot begin attempt {attempt}: it stands elsewhere")
        return recorded

    def record_result(self, lease: Lease, seq: int, attempt: int, result_json: str, *, source: str = "attempt") -> None:
        self._progress(lease)
        if self._finish(lease, seq, attempt, StepState.done, result=result_json):
            told = None if source == "attempt" else source
            note(self._uow, lease.run_id, "result", seq, attempt=attempt, source=told)

    def record_failure(self, lease: Lease, seq: int, attempt: int, error: RunError, *, afresh: bool) -> None:
        self._progress(lease, failed_step=seq if afresh else None)
        if self._finish(lease, seq, attempt, StepState.failed, error=error, final=not afresh):
            shown = f"{error.short_kind}: {error.message}"
            note(self._uow, lease.run_id, "failure", seq, attempt=attempt, error=shown, last=True)

    def retry_later(
        self, lease: Lease, seq: int, attempt: int, error: RunError, due_at: datetime, *, state: StepState
    ) -> None:
        shown = f"{error.short_kind}: {error.message}"
        self._uow.endings.sleep(lease, due_at, f"step {seq}, attempt {attempt}: {shown}")
        self._finish(lease, seq, attempt, state, error=error, due_at=due_at)
        self._tell_retry(lease, seq, attempt, error, due_at, state)

    def _tell_retry(
        self, lease: Lease, seq: int, attempt: int, error: RunError, due_at: datetime, state: StepState
    ) -> None:
        shown = f"{error.short_kind}: {error.message}"
        what = "failure" if state is StepState.retry else "outcome unknown"
        note(self._uow, lease.run_id, what, seq, attempt=attempt, error=shown, due_at=due_at.isoformat())

    def postpone(
        self, lease: Lease, seq: int, attempt: int, error: RunError, due_at: datetime, *, state: StepState
    ) -> None:
        self._progress(lease)
        self._finish(lease, seq, attempt, state, error=error, due_at=due_at)
        self._tell_retry(lease, seq, attempt, error, due_at, state)

    def look_later(self, lease: Lease, seq: int, due_at: datetime, *, pending: Pending = NOTHING) -> None:
        self.hold(lease)
        record_pending(self._uow, lease.run_id, pending)
        about = {"b_run": lease.run_id, "b_seq": seq, "b_due": due_at}
        self._uow.connection.execute(_LOOK_LATER, about)

    def add_receipt(self, run_id: str, seq: int, attempt: int, name: str, result_json: str) -> None:
        added = _add_receipt.into(
            self._uow,
            {
                "run_id": run_id,
                "seq": seq,
                "attempt": attempt,
                "name": name,
                "result": result_json,
                "received_at": self._uow.now,
            },
        )
        if added:
            note(self._uow, run_id, "receipt", seq, attempt=attempt)

    def receipt(self, run_id: str, seq: int) -> str | None:
        found = self._uow.row(_RECEIPT, {"b_run": run_id, "b_seq": seq})
        return None if found is None else str(found.result)

    def hold(self, lease: Lease) -> None:
        if not self._uow.changes_one(_TOUCH, held_by(lease)):
            raise lost_or_cancelled(self._uow, lease)

    def _progress(self, lease: Lease, failed_step: int | None = None) -> None:
        if not self._uow.changes_one(_PROGRESS, {**held_by(lease), "b_failed": failed_step}):
            raise LeaseLost(lease)

    def _finish(
        self,
        lease: Lease,
        seq: int,
        attempt: int,
        state: StepState,
        *,
        result: str | None = None,
        error: RunError | None = None,
        due_at: datetime | None = None,
        final: bool = False,
    ) -> bool:
        """False when this very outcome stands already: the transaction is being tried again."""
        about = {"b_run": lease.run_id, "b_seq": seq, "b_attempt": attempt}
        over = state in (StepState.done, StepState.failed)
        changed = self._uow.changes_one(
            _FINISH,
            {
                **about,
                "b_state": state.value,
                "b_result": result,
                **error_values(error, "b_"),
                "b_due": due_at,
                "b_finished": self._uow.now if over else None,
                "b_final": final,
            },
        )
        if changed:
            reach(CrashPoint.inside_transaction)
            return True
        stands = self._uow.row(_STANDS, about)
        if stands is not None and stands.state == state and stands.attempts == attempt:
            return False
        raise StoreError(f"step {seq} of run {lease.run_id} has no open attempt {attempt}")
