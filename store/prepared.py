"""Statements of the busy paths, compiled once for each dialect and handed to the driver as they are.

The statement is the same SQLAlchemy one; what is spared is its execution context, which costs ten times what the driver
does. Values go through the types of their columns, both ways; errors of the driver come out as SQLAlchemy's.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Executable, Float
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError

_NAMED = SQLiteDialect_pysqlite(dbapi=sqlite3, paramstyle="named")


class Prepared:
    """Parameters are the statement's `bindparam`s, all of them, each time; of an INSERT, the `columns` it is told here.
    Not for statements whose text depends on the values (a list in `IN`)."""

    def __init__(self, statement: Executable, *columns: str) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, Compiled] = {}

    def change(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """How many rows it changed."""
        with self.errors(connection):
            count: int = self.send(connection, values).rowcount
        return count

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Named tuples of what it selects or returns."""
        with self.errors(connection):
            return self.found(connection, self.send(connection, values))

    def row(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """The one row that there is, or None."""
        found = self.rows(connection, values)
        if len(found) > 1:
            raise LookupError(f"{len(found)} rows where there is at most one")
        return found[0] if found else None

    def send(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """The driver's cursor, for `found` or its row count. Within `errors`."""
        return self.compiled(connection).send(connection, values)

    def found(self, connection: Connection, cursor: Any) -> list[Any]:
        make = self.compiled(connection).row
        return [make(row) for row in cursor.fetchall()]

    @staticmethod
    @contextmanager
    def errors(connection: Connection) -> Iterator[None]:
        kinds: Any = connection.dialect.loaded_dbapi.Error
        try:
            yield
        except kinds as exc:
            raise DBAPIError.instance(None, None, exc, kinds, dialect=connection.dialect) from exc

    def compiled(self, connection: Connection) -> Compiled:
        name = connection.dialect.name
        compiled = self._compiled.get(name)
        if compiled is None:
            dialect = _NAMED if name == "sqlite" else connection.dialect
            compiled = self._compiled[name] = Compiled(self._statement, dialect, self._columns)
        return compiled


class Compiled:
    def __init__(self, statement: Any, dialect: Dialect, columns: tuple[str, ...]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(columns) or None)
        self.text = str(compiled)
        self._fixed: dict[str, Any] = {}
        """By name in the text: what stands in the statement itself, and defaults of columns."""
        given: dict[str, tuple[str, Callable[[Any], Any] | None]] = {}
        defaults = {column.key: column.default for column in getattr(compiled, "insert_prefetch", ())}
        for bind, name in compiled.bind_names.items():
            process = _bind_processor(bind.type, dialect)
            if bind.key in defaults:
                self._fixed[name] = _processed(process, defaults[bind.key].arg)
            elif bind.required or bind.key in columns:
                # One value may stand in several places, not all of which say of which type it is.
                given[name] = (bind.key, process or given.get(name, ("", None))[1])
            else:
                self._fixed[name] = _processed(process, bind.effective_value)
        self._given = [(name, key, process) for name, (key, process) in given.items()]
        found = list(getattr(statement, "exported_columns", ()))
        self._results = [_result_processor(column.type, dialect) for column in found]
        names = [column.name for column in found]
        self._make: Callable[..., Any] = _row_class(names)._make if names else tuple

    def send(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        driver: Any = connection.connection.dbapi_connection
        return driver.execute(self.text, self.bound(values))

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        bound = self._fixed.copy()
        for name, key, process in self._given:
            bound[name] = values[key] if process is None else process(values[key])
        return bound

    def row(self, found: tuple[Any, ...]) -> Any:
        return self._make(
            value if process is None else process(value) for value, process in zip(found, self._results, strict=True)
        )


def _row_class(names: list[str]) -> Any:
    return namedtuple("Row", names)


def _bind_processor(kind: Any, dialect: Dialect) -> Callable[[Any], Any] | None:
    found: Callable[[Any], Any] | None = kind.dialect_impl(dialect).bind_processor(dialect)
    if found is not None and kind.python_type is datetime:
        return lru_cache(1024)(found)  # a transaction writes its instant many times
    return found


def _result_processor(kind: Any, dialect: Dialect) -> Callable[[Any], Any] | None:
    sent_as = 701 if isinstance(kind, Float) else None  # PostgreSQL's number of a double
    found: Callable[[Any], Any] | None = kind.dialect_impl(dialect).result_processor(dialect, sent_as)
    return found


def _processed(process: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if process is None else process(value)
