"""What one idle tick of a dispatcher asks its database, and how long that takes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import sqlalchemy

import bench.contenders.hermes_runs  # noqa: F401 -- its functions are what a worker looks for
from hermes.clock import SystemClock
from hermes.durable.worker import Worker
from store.database import Database
from store.prepared import Compiled

COUNT = 200


@dataclass(frozen=True)
class Ticks:
    statements: int
    milliseconds: float


def tick_cost(database: Database) -> Ticks:
    worker = Worker(database, SystemClock())
    try:
        worker.rescue()
        worker.lease(8)
        statements = _count(database, worker)
        took = []
        for _ in range(COUNT):
            began = time.perf_counter()
            worker.rescue()
            worker.lease(8)
            took.append(time.perf_counter() - began)
    finally:
        worker.close()
    return Ticks(statements, median(took) * 1000)


def _count(database: Database, worker: Worker) -> int:
    seen: list[str] = []
    send = Compiled.send

    def counted(self: Compiled, connection: sqlalchemy.Connection, values: Any) -> Any:
        seen.append(self.text)
        return send(self, connection, values)

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sqlalchemy.event.listen(database.engine, "before_cursor_execute", count)
    Compiled.send = counted  # type: ignore[method-assign]
    try:
        worker.rescue()
        worker.lease(8)
    finally:
        Compiled.send = send  # type: ignore[method-assign]
        sqlalchemy.event.remove(database.engine, "before_cursor_execute", count)
    return len(seen)
