"""What it means to hold a run: the condition that every write for a run carries, and what its failing means."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, bindparam, literal_column, select

from hermes.errors import LeaseLost
from hermes.model.run import Lease, RunState
from hermes.model.step import StepState
from hermes.ports.runs import CancelAsked
from store.prepared import Prepared
from store.tables.runs import RUNS, STEPS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


def in_state(*states: RunState) -> ColumnElement[bool]:
    """Spelt out in the statement, not bound: only so does a partial index serve it."""
    return _one_of(RUNS.c.state, states)


def step_in_state(*states: StepState) -> ColumnElement[bool]:
    return _one_of(STEPS.c.state, states)


def _one_of(column: ColumnElement[str], states: Sequence[StrEnum]) -> ColumnElement[bool]:
    names: list[ColumnElement[str]] = [literal_column(f"'{state.value}'") for state in states]
    return column == names[0] if len(names) == 1 else column.in_(names)


HELD = and_(
    RUNS.c.id == bindparam("b_run"),
    RUNS.c.owner == bindparam("b_owner"),
    RUNS.c.fence == bindparam("b_fence"),
    in_state(RunState.running),
)
"""The run is held under this very lease; parameters from `held_by`."""

LET_GO: dict[str, None] = {"owner": None, "lease_until": None}

_CANCEL_REASON = Prepared(select(RUNS.c.cancel_reason).where(HELD))


def held_by(lease: Lease) -> dict[str, Any]:
    return {"b_run": lease.run_id, "b_owner": lease.owner, "b_fence": lease.fence}


def lost_or_cancelled(uow: UnitOfWork, lease: Lease) -> BaseException:
    """Why a write that also respects cancelling changed no row."""
    held = uow.row(_CANCEL_REASON, held_by(lease))
    return LeaseLost(lease) if held is None or held.cancel_reason is None else CancelAsked(held.cancel_reason)
