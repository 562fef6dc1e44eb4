"""Rows of runs and steps as the frozen values that callers see."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from hermes.model.run import EffectClass, Run, RunError, RunKind, RunState
from hermes.model.step import Step, StepKind, StepState

LONGEST_KIND = 300
"""Of the column; a class may be named in any way."""


def error_of(row: Row[Any]) -> RunError | None:
    return RunError(row.error_kind, row.error_message or "", row.error_trace) if row.error_kind else None


def error_values(error: RunError | None, prefix: str = "") -> dict[str, str | None]:
    """The three columns of an error; with `prefix`, as parameters of a prepared statement."""
    return {
        f"{prefix}error_kind": error.kind[:LONGEST_KIND] if error else None,
        f"{prefix}error_message": error.message if error else None,
        f"{prefix}error_trace": error.trace if error else None,
    }


def run_of(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        key=row.key,
        kind=RunKind(row.kind),
        function=row.function,
        args=json.loads(row.args),
        state=RunState(row.state),
        deliveries=row.deliveries,
        max_deliveries=row.max_deliveries,
        crashes=row.crashes,
        take_overs=row.take_overs,
        owner=row.owner,
        fence=row.fence,
        lease_until=row.lease_until,
        due_at=row.due_at,
        held=row.held,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        result=json.loads(row.result) if row.result is not None else None,
        error=error_of(row),
        reason=row.reason,
        poll_id=row.poll_id,
        condition_version=row.condition_version,
        object_id=row.object_id,
        parent_run_id=row.parent_run_id,
        cancel_reason=row.cancel_reason,
        place_group=row.place_group,
        priority=row.priority,
        hold_on_redelivery=row.hold_on_redelivery,
        duplicates=row.duplicates,
        changed_at=row.changed_at,
        namespace=row.namespace,
        base_seq=row.base_seq,
        continued=row.continued,
        whole=row.details == "whole",
    )


def step_of(row: Row[Any]) -> Step:
    return Step(
        run_id=row.run_id,
        seq=row.seq,
        kind=StepKind(row.kind),
        name=row.name,
        state=StepState(row.state),
        attempts=row.attempts,
        attempts_before=row.attempts_before,
        args_json=row.args,
        result_json=row.result,
        error=error_of(row),
        effect=EffectClass(row.effect) if row.effect else None,
        first_attempt_at=row.first_attempt_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        due_at=row.due_at,
        awaits_run_id=row.awaits_run_id,
    )
