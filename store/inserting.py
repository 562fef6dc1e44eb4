"""INSERT that gives way to a row that is there already, in the words of each database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from store.prepared import Prepared


class InsertIgnoring:
    """Changes nothing (row count 0) when the unique columns are taken."""

    def __init__(self, table: Table, *unique: str) -> None:
        given: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        # Nothing of the new row is asked back.
        self._statements: dict[str, Any] = {
            name: insert(table).inline().on_conflict_do_nothing(index_elements=list(unique))
            for name, insert in given.items()
        }
        self._prepared: dict[tuple[str, ...], Prepared] = {}
        """By dialect and the columns that are given."""

    def __call__(self, connection: Connection, values: dict[str, Any]) -> bool:
        """True when the row is new."""
        name = connection.dialect.name
        wanted = (name, *values)
        prepared = self._prepared.get(wanted)
        if prepared is None:
            prepared = self._prepared[wanted] = Prepared(self._statements[name], *values)
        return prepared.change(connection, values) == 1
