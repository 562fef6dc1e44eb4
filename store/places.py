"""Places: rows that bound how many runs of a group run at once. A place past its time is free, whoever stands in it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, bindparam, case, delete, exists, func, or_, select, update

from store.inserting import InsertIgnoring
from store.tables.runs import PLACES, RUNS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_add_place = InsertIgnoring(PLACES, "place_group", "slot")
_FREE = or_(PLACES.c.run_id.is_(None), PLACES.c.until < bindparam("b_now"))
_OPEN_TO_RUN = or_(PLACES.c.run_id == bindparam("b_run"), _FREE)
_FIND = (
    select(PLACES.c.slot)
    .where(PLACES.c.place_group == bindparam("b_group"), _OPEN_TO_RUN)
    # Its own first, so that no run ever stands in two.
    .order_by(case((PLACES.c.run_id == bindparam("b_run"), 0), else_=1), PLACES.c.slot)
    .limit(1)
    .with_for_update(skip_locked=True, key_share=True)
)
_TAKE = (
    update(PLACES)
    .where(PLACES.c.place_group == bindparam("b_group"), PLACES.c.slot == bindparam("b_slot"), _OPEN_TO_RUN)
    .values(run_id=bindparam("b_run"), until=bindparam("b_until"))
)
_RELEASE = update(PLACES).where(PLACES.c.run_id == bindparam("b_run")).values(run_id=None, until=None)
_EXTEND = (
    update(PLACES).where(PLACES.c.run_id.in_(bindparam("b_runs", expanding=True))).values(until=bindparam("b_until"))
)
_COUNT_FREE = select(func.count()).where(PLACES.c.place_group == bindparam("b_group"), _FREE)


def has_place() -> ColumnElement[bool]:
    """Of a row of runs: it needs no place, has one, or finds a free one. Takes the parameter b_now."""
    return or_(
        RUNS.c.place_group.is_(None),
        exists(
            select(PLACES.c.slot).where(
                PLACES.c.place_group == RUNS.c.place_group, or_(PLACES.c.run_id == RUNS.c.id, _FREE)
            )
        ),
    )


class PlaceStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def set_places(self, group: str, count: int) -> None:
        execute = self._uow.connection.execute
        execute(delete(PLACES).where(PLACES.c.place_group == group, PLACES.c.slot >= count))
        for slot in range(count):
            _add_place(self._uow.connection, {"place_group": group, "slot": slot})
        self._uow.wakes()

    def take_place(self, group: str, run_id: str, until: datetime) -> bool:
        execute = self._uow.connection.execute
        about = {"b_group": group, "b_run": run_id, "b_now": self._uow.now}
        slot = execute(_FIND, about).scalar_one_or_none()
        if slot is None:
            return False
        return execute(_TAKE, {**about, "b_slot": slot, "b_until": until}).rowcount == 1

    def release_place(self, run_id: str) -> None:
        if self._uow.connection.execute(_RELEASE, {"b_run": run_id}).rowcount:
            self._uow.wakes()

    def extend_places(self, run_ids: list[str], until: datetime) -> None:
        if run_ids:
            self._uow.connection.execute(_EXTEND, {"b_runs": run_ids, "b_until": until})

    def free_places(self, group: str) -> int:
        return self._uow.connection.execute(_COUNT_FREE, {"b_group": group, "b_now": self._uow.now}).scalar_one()
