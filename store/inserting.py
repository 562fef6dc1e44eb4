"""INSERT that gives way to a row that is there already, in the words of each database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


class InsertIgnoring:
    """Changes nothing (row count 0) when the unique columns are taken."""

    def __init__(self, table: Table, *unique: str) -> None:
        self._statements: dict[str, Any] = {
            "sqlite": sqlite.insert(table).on_conflict_do_nothing(index_elements=list(unique)),
            "postgresql": postgresql.insert(table).on_conflict_do_nothing(index_elements=list(unique)),
        }

    def __call__(self, connection: Connection, values: dict[str, Any]) -> bool:
        """True when the row is new."""
        return connection.execute(self._statements[connection.dialect.name], values).rowcount == 1
