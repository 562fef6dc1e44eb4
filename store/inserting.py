"""INSERT that gives way to a row that is there already, in the words of each database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from store.prepared import Prepared

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


class InsertIgnoring:
    """Changes nothing (row count 0) when the unique columns are taken."""

    def __init__(self, table: Table, *unique: str) -> None:
        given: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        # Nothing of the new row is asked back.
        self._statements: dict[str, Any] = {
            name: insert(table).inline().on_conflict_do_nothing(index_elements=list(unique))
            for name, insert in given.items()
        }
        self._prepared: dict[tuple[str, tuple[str, ...]], Prepared] = {}
        """By dialect and the columns that are given."""

    def into(self, uow: UnitOfWork, values: dict[str, Any]) -> bool:
        """True when the row is new; see UnitOfWork.changes_one."""
        return uow.changes_one(self._statement(uow.dialect, tuple(values)), values)

    def __call__(self, connection: Connection, values: dict[str, Any]) -> bool:
        """True when the row is new."""
        return self._statement(connection.dialect.name, tuple(values)).change(connection, values) == 1

    def _statement(self, dialect: str, columns: tuple[str, ...]) -> Prepared:
        prepared = self._prepared.get((dialect, columns))
        if prepared is None:
            prepared = self._prepared[dialect, columns] = Prepared(self._statements[dialect], *columns)
        return prepared
