"""What it means to hold a run: the condition that every write for a run carries, and what its failing means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, bindparam, literal_column, select

from hermes.errors import LeaseLost
from hermes.model.run import Lease, RunState
from hermes.ports.runs import CancelAsked
from store.tables.runs import RUNS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


def in_state(*states: RunState) -> ColumnElement[bool]:
    """Spelt out in the statement, not bound: only so does a partial index serve it."""
    names: list[ColumnElement[str]] = [literal_column(f"'{state.value}'") for state in states]
    return RUNS.c.state == names[0] if len(names) == 1 else RUNS.c.state.in_(names)


HELD = and_(
    RUNS.c.id == bindparam("b_run"),
    RUNS.c.owner == bindparam("b_owner"),
    RUNS.c.fence == bindparam("b_fence"),
    in_state(RunState.running),
)
"""The run is held under this very lease; parameters from `held_by`."""

LET_GO: dict[str, None] = {"owner": None, "lease_until": None}

_CANCEL_REASON = select(RUNS.c.cancel_reason).where(HELD)


def held_by(lease: Lease) -> dict[str, Any]:
    return {"b_run": lease.run_id, "b_owner": lease.owner, "b_fence": lease.fence}


def lost_or_cancelled(uow: UnitOfWork, lease: Lease) -> BaseException:
    """Why a write that also respects cancelling changed no row."""
    reason = uow.connection.execute(_CANCEL_REASON, held_by(lease)).scalar_one_or_none()
    return CancelAsked(reason) if reason is not None else LeaseLost(lease)
