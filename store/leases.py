"""Run leases: who may drive a run, for how long, and what happens when nobody renews.

Selecting a run entitles nobody to it: the conditional update does, and it must change one row.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, String, bindparam, func, or_, select, update

from hermes.model.run import Lease, RunState
from hermes.model.step import LeasedRun
from store.child_endings import settle
from store.holding import HELD, LET_GO, held_by, in_state
from store.places import has_place
from store.prepared import Prepared
from store.run_values import run_of
from store.steps import steps_of
from store.tables.runs import RUNS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_OPEN = (
    RUNS.c.due_at <= bindparam("b_now"),
    RUNS.c.held.is_(False),
    RUNS.c.crashes < bindparam("b_crashes"),
)
_CANDIDATE = (
    select(RUNS.c.id, RUNS.c.state, RUNS.c.fence, RUNS.c.place_group, RUNS.c.priority, RUNS.c.due_at, RUNS.c.crashes)
    .where(*_OPEN, has_place())
    .limit(bindparam("b_limit"))
    # Whoever leases at the same moment looks further; `key_share`: steps may be added to a run whose row is locked.
    .with_for_update(skip_locked=True, key_share=True)
)


@lru_cache
def _looks(functions: tuple[str, ...]) -> tuple[Prepared, Prepared]:
    """For runs of these functions: two, so that neither a long queue nor many sleepers are ever sorted."""
    candidate = _CANDIDATE.where(RUNS.c.function.in_([bindparam(None, name, String) for name in functions]))
    ready = candidate.where(in_state(RunState.ready)).order_by(RUNS.c.priority, RUNS.c.due_at)
    return Prepared(ready), Prepared(candidate.where(in_state(RunState.waiting)).order_by(RUNS.c.due_at))


_LEASE = Prepared(
    update(RUNS)
    .where(
        RUNS.c.id == bindparam("b_run"),
        RUNS.c.fence == bindparam("b_fence"),
        RUNS.c.state == bindparam("b_state"),
        RUNS.c.held.is_(False),
    )
    .values(
        state=RunState.running.value,
        owner=bindparam("b_owner"),
        fence=RUNS.c.fence + 1,
        lease_until=bindparam("b_until"),
        started_at=func.coalesce(RUNS.c.started_at, bindparam("b_now")),
        changed_at=bindparam("b_now"),
        reason=None,
    )
    .returning(RUNS)
)
_NOT_IN_USE = (
    select(RUNS.c.id)
    .where(RUNS.c.id.in_(bindparam("b_runs", expanding=True)), RUNS.c.owner == bindparam("b_owner"))
    .with_for_update(skip_locked=True, key_share=True)
)
_RENEW = (
    update(RUNS)
    .where(
        RUNS.c.id.in_(bindparam("b_runs", expanding=True)),
        RUNS.c.owner == bindparam("b_owner"),
        in_state(RunState.running),
    )
    .values(lease_until=bindparam("b_until"))
    .returning(RUNS.c.id, RUNS.c.fence)
)
_LEFT_ALONE = or_(RUNS.c.lease_until < bindparam("b_now"), RUNS.c.owner.in_(bindparam("b_gone", expanding=True)))
_EXPIRED = (
    select(RUNS)
    .where(in_state(RunState.running), _LEFT_ALONE)
    .order_by(RUNS.c.lease_until)
    .limit(bindparam("b_limit"))
    .with_for_update(skip_locked=True, key_share=True)
)
_FREE = (
    update(RUNS)
    .where(HELD, _LEFT_ALONE)
    .values(
        state=bindparam("b_state"),
        take_overs=RUNS.c.take_overs + 1,
        crashes=RUNS.c.crashes + 1,
        due_at=bindparam("b_due"),
        finished_at=bindparam("b_finished"),
        reason=bindparam("b_reason"),
        changed_at=bindparam("b_now"),
        **LET_GO,
    )
)
_OF_OWNER = select(RUNS.c.id, RUNS.c.fence, RUNS.c.lease_until).where(
    RUNS.c.owner == bindparam("b_owner"), in_state(RunState.running)
)
_HAND_BACK = (
    update(RUNS)
    .where(HELD)
    .values(state=RunState.ready.value, due_at=bindparam("b_now"), changed_at=bindparam("b_now"), **LET_GO)
)

_NO_LIMIT = 1_000_000
_LONGEST_PAUSE = timedelta(minutes=5)


def _pause(further: int, first: timedelta) -> timedelta:
    """After `further` crashes beyond the one that made a run a suspect."""
    return timedelta(0) if further < 0 else min(first * 2**further, _LONGEST_PAUSE)


class LeaseStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def lease(
        self,
        owner: str,
        lease_for: timedelta,
        functions: Collection[str],
        limit: int,
        *,
        suspects: int | None = None,
        suspect_after: int = 2,
    ) -> list[LeasedRun]:
        if limit < 1 or not functions:
            return []
        uow = self._uow
        look = {
            "b_now": uow.now,
            "b_limit": limit,
            "b_crashes": suspect_after if suspects == 0 else _NO_LIMIT,
        }
        ready, waiting = _looks(tuple(sorted(functions)))
        candidates = [*uow.rows(ready, look), *uow.rows(waiting, look)]
        candidates.sort(key=lambda row: (row.priority, row.due_at))
        taken: list[Any] = []
        for candidate in candidates:
            if len(taken) == limit:
                break
            suspect = candidate.crashes >= suspect_after
            if suspect and suspects == 0:
                continue
            row = self._lease_one(candidate, owner, lease_for)
            if row is not None:
                taken.append(row)
                if suspect and suspects is not None:
                    suspects -= 1
        had_steps = [row.id for row in taken if row.fence > 1]
        steps = steps_of(uow, had_steps) if had_steps else {}
        return [
            LeasedRun(run_of(row), Lease(row.id, owner, row.fence, row.lease_until), tuple(steps.get(row.id, ())))
            for row in taken
        ]

    def _lease_one(self, candidate: Row[Any], owner: str, lease_for: timedelta) -> Any:
        uow = self._uow
        until = uow.now + lease_for
        group = candidate.place_group
        if group is not None and not uow.places.take_place(group, candidate.id, until):
            return None
        row = uow.row(
            _LEASE,
            {
                "b_run": candidate.id,
                "b_fence": candidate.fence,
                "b_state": candidate.state,
                "b_owner": owner,
                "b_until": until,
                "b_now": uow.now,
            },
        )
        if row is None:
            if group is not None:
                uow.places.release_place(candidate.id)
            return None
        note(uow, row.id, "leased", owner=owner, fence=row.fence)
        return row

    def renew(self, owner: str, leases: Collection[Lease], lease_for: timedelta, *, waits: bool = True) -> set[Lease]:
        execute = self._uow.connection.execute
        runs = [lease.run_id for lease in leases]
        if runs and not waits:
            runs = list(execute(_NOT_IN_USE, {"b_runs": runs, "b_owner": owner}).scalars())
        if not runs:
            return set()
        until = self._uow.now + lease_for
        rows = execute(_RENEW, {"b_runs": runs, "b_owner": owner, "b_until": until}).all()
        held = {(run_id, fence) for run_id, fence in rows}
        self._uow.places.extend_places([run_id for run_id, _ in held], until)
        return {lease for lease in leases if (lease.run_id, lease.fence) in held}

    def rescue(
        self,
        *,
        poison_after: int,
        suspect_after: int = 2,
        suspect_pause: timedelta = timedelta(0),
        limit: int = 100,
        gone: Collection[str] = (),
    ) -> list[str]:
        uow = self._uow
        rescued = []
        about = {"b_now": uow.now, "b_limit": limit, "b_gone": sorted(gone)}
        for row in uow.connection.execute(_EXPIRED, about).all():
            poison = row.crashes + 1 >= poison_after
            reason = f"poison crash: {row.crashes + 1} workers in a row died while they ran it" if poison else None
            changed = uow.connection.execute(
                _FREE,
                {
                    "b_run": row.id,
                    "b_owner": row.owner,
                    "b_fence": row.fence,
                    "b_now": uow.now,
                    "b_state": (RunState.parked if poison else RunState.ready).value,
                    "b_due": None if poison else uow.now + _pause(row.crashes + 1 - suspect_after, suspect_pause),
                    "b_finished": uow.now if poison else None,
                    "b_reason": reason,
                    "b_gone": sorted(gone),
                },
            ).rowcount
            if changed != 1:
                continue
            rescued.append(row.id)
            note(uow, row.id, "take-over", owner=row.owner, fence=row.fence, crashes=row.crashes + 1)
            if poison:
                note(uow, row.id, RunState.parked.value, reason=reason)
                uow.waits.clear(row.id)
                settle(uow, row.id, RunState.parked, reason=reason)
                if row.place_group is not None:
                    uow.places.release_place(row.id)
                uow.run_changed(row.id, row.kind, row.object_id)
            uow.wakes()
        return rescued

    def of(self, owner: str) -> set[Lease]:
        rows = self._uow.connection.execute(_OF_OWNER, {"b_owner": owner})
        return {Lease(run_id, owner, fence, until) for run_id, fence, until in rows}

    def hand_back(self, lease: Lease) -> bool:
        uow = self._uow
        if uow.connection.execute(_HAND_BACK, {**held_by(lease), "b_now": uow.now}).rowcount != 1:
            return False
        note(uow, lease.run_id, "handed back", owner=lease.owner, fence=lease.fence)
        uow.wakes()
        return True
