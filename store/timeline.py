"""The timeline of runs: what happened, in order, only ever added to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, func, insert, select

from hermes.model.json import JSON
from hermes.model.run import TimelineEntry
from store.prepared import Prepared
from store.tables.runs import TIMELINE

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_ADD = Prepared(insert(TIMELINE).inline(), "run_id", "at", "what", "step", "detail")
_FORGET = delete(TIMELINE).where(
    TIMELINE.c.run_id == bindparam("b_run"),
    TIMELINE.c.id
    < select(func.max(TIMELINE.c.id))
    .where(TIMELINE.c.run_id == bindparam("b_run"), TIMELINE.c.what == bindparam("b_what"))
    .scalar_subquery(),
)
_OF_RUN = select(TIMELINE).where(TIMELINE.c.run_id == bindparam("b_run")).order_by(TIMELINE.c.id)


def note(uow: UnitOfWork, run_id: str, what: str, step: int | None = None, /, **detail: JSON) -> None:
    kept = {name: value for name, value in detail.items() if value is not None}
    uow.changes_one(
        _ADD,
        {
            "run_id": run_id,
            "at": uow.now,
            "what": what,
            "step": step,
            "detail": json.dumps(kept, ensure_ascii=False) if kept else None,
        },
    )


def forget_before_last(uow: UnitOfWork, run_id: str, what: str) -> None:
    """Entries before the newest `what`, where there is one: of a run that goes on for ever two histories are kept."""
    uow.connection.execute(_FORGET, {"b_run": run_id, "b_what": what})


def entries(uow: UnitOfWork, run_id: str) -> list[TimelineEntry]:
    return [
        TimelineEntry(row.at, row.what, row.step, json.loads(row.detail) if row.detail else {})
        for row in uow.connection.execute(_OF_RUN, {"b_run": run_id})
    ]
