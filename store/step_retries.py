"""A person grants one step of a stopped run new attempts, and the run goes on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update

from hermes.model.run import RunState
from hermes.model.step import Step, StepKind, StepState
from hermes.ports.retries import StepRetried
from hermes.ports.runs import Resumed
from store.run_values import error_values
from store.tables.runs import RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_RUN = select(RUNS.c.state, RUNS.c.details, RUNS.c.failed_step).where(RUNS.c.id == bindparam("b_run"))
_GRANT = (
    update(STEPS)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        STEPS.c.seq == bindparam("b_seq"),
        STEPS.c.state == bindparam("b_seen"),
    )
    .values(
        state=bindparam("b_state"),
        # A person granted it: the retries are counted afresh, and so is the time for which the key is good.
        attempts_before=STEPS.c.attempts,
        first_attempt_at=None,
        finished_at=None,
        due_at=None,
        **error_values(None),
    )
)


def retry_step(uow: UnitOfWork, run_id: str, seq: int, *, held: bool, by: str | None) -> StepRetried:
    run = uow.connection.execute(_RUN, {"b_run": run_id}).one_or_none()
    if run is None:
        return StepRetried.unknown_run
    if not RunState(run.state).final:
        return StepRetried.live
    if RunState(run.state) in (RunState.succeeded, RunState.refused):
        return StepRetried.over
    if run.details != "whole":
        return StepRetried.forgotten
    steps = {step.seq: step for step in uow.runs.steps(run_id)}
    if seq not in steps:
        return StepRetried.unknown_step
    step = steps[seq]
    if step.state in (StepState.done, StepState.lost):
        return StepRetried.done
    if step.kind not in (StepKind.command, StepKind.child):
        return StepRetried.no_command
    last = run.failed_step is not None and seq >= run.failed_step  # it failed with the last, and nothing came after it
    if step.state is StepState.failed and not last and _gone_on(step, list(steps.values())):
        return StepRetried.final
    note(uow, run_id, "retry granted", seq, by=by)
    if step.kind is StepKind.child:
        if not _child_goes_on(uow, step, by):
            return StepRetried.child_over
    else:
        # A result that came late is taken in place of another attempt, as for any outcome that nobody knew.
        late = uow.steps.receipt(run_id, seq) is not None
        _grant(uow, step, StepState.unknown if late else StepState.retry)
    resumed = uow.runs.resume(run_id, held=held, by=by)
    # Not stopped: its child's going on has taken it along.
    return StepRetried.in_doubt if resumed is Resumed.needs_decision else StepRetried.granted


def _gone_on(failed: Step, steps: list[Step]) -> bool:
    """Steps that were under way side by side with it do not count: nobody had seen the failure yet."""
    return any(step.seq > failed.seq and _began_after(step, failed.finished_at) for step in steps)


def _began_after(step: Step, instant: datetime | None) -> bool:
    began = step.first_attempt_at or step.started_at
    return instant is None or began is None or began >= instant


def _child_goes_on(uow: UnitOfWork, step: Step, by: str | None) -> bool:
    if step.awaits_run_id is None:
        return False  # its key was another function's
    uow.runs.resume(step.awaits_run_id, by=by)
    child = uow.runs.get(step.awaits_run_id)
    if child is None or child.state.final:
        return False
    if step.state is StepState.failed:
        _grant(uow, step, StepState.waiting)
    return True


def _grant(uow: UnitOfWork, step: Step, state: StepState) -> None:
    about = {"b_run": step.run_id, "b_seq": step.seq, "b_seen": step.state.value, "b_state": state.value}
    if uow.connection.execute(_GRANT, about).rowcount != 1:
        raise RuntimeError(f"step {step.seq} of run {step.run_id} has moved")  # it is stopped: nobody may
