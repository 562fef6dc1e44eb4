"""More sleepers than there is time to drive: copies of rows that a worker wrote, under other ids and keys."""

from __future__ import annotations

import itertools
from typing import Any

from sqlalchemy import Insert, Select, Table, func, insert, literal, select

from store.database import Database
from store.tables.events import WAITS
from store.tables.runs import RUNS, STEPS, TIMELINE

PREFIX = 4
"""Letters of an id that a copy changes: those of the time, the same for all that were made within weeks."""

_numbers = itertools.count(1)


def copy(database: Database, called: str, count: int) -> None:
    """Of sleeping runs of this function, in batches of those that are no copies."""
    originals = select(RUNS.c.id).where(RUNS.c.function == called, RUNS.c.state == "waiting", RUNS.c.id.not_like("x%"))
    made = 0
    while made < count:
        number = next(_numbers)
        with database.write() as unit:
            ids = originals.order_by(RUNS.c.id).limit(count - made)
            found = unit.connection.execute(ids).all()
            for table in (RUNS, STEPS, TIMELINE, WAITS):
                unit.connection.execute(_copies(table, number, ids))
        if not found:
            raise RuntimeError(f"nobody sleeps in {called}")
        made += len(found)


def _copies(table: Table, number: int, ids: Select[Any]) -> Insert:
    owner = table.c.id if table is RUNS else table.c.run_id
    chosen: dict[str, Any] = {}
    for column in table.c:
        if column is owner:
            chosen[column.name] = literal(f"x{number:03}") + func.substr(column, PREFIX + 1)
        elif column.name in ("key", "instance_id"):
            chosen[column.name] = column + literal(f"/{number}")
        elif column.name != "id":
            chosen[column.name] = column
    return insert(table).from_select(list(chosen), select(*chosen.values()).where(owner.in_(ids)))
