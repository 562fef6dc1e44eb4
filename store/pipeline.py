"""Sends the statements of a short change to PostgreSQL together, so that they cost one round trip and not one each.

Nearly every statement of a busy change is a conditional update or an insert that changes one row. Here each is believed
to, sent with the others, and looked at when they are answered. If one did not, the transaction is rolled back and the
change made again step by step, where it finds out by itself what that means: a lost lease, a request to stop, a
transaction that was made already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection

from store.prepared import Prepared

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

T = TypeVar("T")


class NotAsBelieved(Exception):
    pass


def together(write: Callable[[], AbstractContextManager[UnitOfWork]], change: Callable[[UnitOfWork], T]) -> T:
    """`change` in a transaction of its own."""
    try:
        with write() as unit:
            unit.pipeline = Pipeline(unit.connection)
            made = change(unit)
            unit.pipeline.settle()
            return made
    except NotAsBelieved:
        with write() as unit:
            return change(unit)


class Pipeline:
    """What was believed and not sent yet, of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queued: list[tuple[Prepared, Mapping[str, Any]]] = []

    def add(self, statement: Prepared, values: Mapping[str, Any]) -> None:
        self._queued.append((statement, values))

    def settle(self) -> None:
        """Send it. Raises NotAsBelieved when one of them did not change one row."""
        if self._queued:
            self._send(None)

    def rows(self, statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
        """Of a statement that is sent along."""
        return self._send((statement, values))

    def _send(self, last: tuple[Prepared, Mapping[str, Any]] | None) -> list[Any]:
        queued, self._queued = self._queued, []
        driver: Any = self._connection.connection.dbapi_connection
        with Prepared.errors(self._connection), driver.pipeline():
            cursors = [statement.send(self._connection, values) for statement, values in queued]
            asked = last[0].send(self._connection, last[1]) if last else None
        if any(cursor.rowcount != 1 for cursor in cursors):
            raise NotAsBelieved
        return last[0].found(self._connection, asked) if last else []
