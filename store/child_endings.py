"""What the ending of a run means for the runs that await it; written in the transaction of the ending itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, update

from hermes.model.run import RunError, RunState
from hermes.model.step import StepState
from store.events import wake
from store.holding import step_in_state
from store.prepared import Prepared
from store.run_values import error_values
from store.tables.runs import RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_SETTLE = Prepared(
    update(STEPS)
    .where(
        STEPS.c.awaits_run_id == bindparam("b_child"),
        step_in_state(StepState.waiting, StepState.parked),
    )
    .values(
        state=bindparam("b_state"),
        result=bindparam("b_result"),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
        finished_at=bindparam("b_finished"),
    )
    .returning(STEPS.c.run_id, STEPS.c.seq)
)
FAILED_STEP = update(RUNS).where(RUNS.c.id == bindparam("b_run")).values(failed_step=bindparam("b_seq"))


def child_ending(
    state: RunState, result: str | None, error: RunError | None, reason: str | None
) -> tuple[StepState, str | None, RunError | None]:
    """State, result and error of a step whose run ended so."""
    if state is RunState.succeeded and result is not None:
        return StepState.done, result, None
    if state is RunState.succeeded:
        return StepState.failed, None, RunError("ResultForgotten", "it succeeded, and its result is no longer kept")
    if state is RunState.parked:
        return StepState.parked, None, RunError("Parked", reason or "it needs attention")
    if state is RunState.failed and error is not None:
        return StepState.failed, None, error
    return StepState.failed, None, RunError(state.value.capitalize(), reason or f"the run was {state.value}")


def settle(
    uow: UnitOfWork,
    run_id: str,
    state: RunState,
    *,
    result: str | None = None,
    error: RunError | None = None,
    reason: str | None = None,
) -> None:
    """Write an ending into every step that awaits the run, and make those runs due."""
    step_state, step_result, step_error = child_ending(state, result, error, reason)
    execute = uow.connection.execute
    awaiting = uow.rows(
        _SETTLE,
        {
            "b_child": run_id,
            "b_state": step_state.value,
            "b_result": step_result,
            **error_values(step_error, "b_"),
            "b_finished": None if step_state is StepState.parked else uow.now,
        },
    )
    for parent_id, seq in awaiting:
        if step_state is StepState.failed:
            execute(FAILED_STEP, {"b_run": parent_id, "b_seq": seq})
        note(uow, parent_id, "child ended", seq, run_id=run_id, state=state.value)
        wake(uow, parent_id)
