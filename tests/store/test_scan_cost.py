"""What a look for work costs grows neither with what is over nor with what sleeps: it reads partial indexes and sorts
nothing."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import insert

from hermes.model.run import RunState
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from store.database import Database
from store.prepared import Compiled
from store.tables.runs import RUNS

OVER = 5_000


def explain(database: Database, statement: str, parameters: Any) -> str:
    """As the database plans it knowing no values: a partial index must serve whatever they are."""
    with database.read() as unit:
        ask = unit.connection.exec_driver_sql
        if database.url.get_backend_name() == "sqlite":
            unknown = dict.fromkeys(parameters) if isinstance(parameters, dict) else tuple(None for _ in parameters)
            rows = ask(f"EXPLAIN QUERY PLAN {statement}", unknown).all()
        else:
            names = {name: number for number, name in enumerate(parameters, 1)}
            text = re.sub(r"%\((\w+)\)s", lambda found: f"${names[found[1]]}", statement)
            rows = ask(f"EXPLAIN (GENERIC_PLAN) {text}").all()
    return "\n".join(str(row[-1]) for row in rows)


@pytest.mark.parametrize("state", [RunState.succeeded, RunState.waiting])
def test_D9_looking_for_work_reads_an_index_however_many_runs_are_over(
    databases: Databases, monkeypatch: pytest.MonkeyPatch, state: RunState
) -> None:
    database = databases.open(FakeClock())
    now = database.clock.now()
    due_at = now + timedelta(days=1) if state is RunState.waiting else None
    with database.write() as unit:
        row = {"kind": "function", "function": "f", "args": "{}", "created_at": now, "changed_at": now}
        over = [
            {**row, "id": f"r{number}", "key": f"k{number}", "state": state.value, "due_at": due_at}
            for number in range(OVER)
        ]
        unit.connection.execute(insert(RUNS), over)
        unit.connection.exec_driver_sql("ANALYZE")
    looks: list[tuple[str, Any]] = []

    @sqlalchemy.event.listens_for(database.engine, "before_cursor_execute")
    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT runs.id"):
            looks.append((statement, parameters))

    send = Compiled.send

    def keep_and_send(self: Compiled, connection: sqlalchemy.Connection, values: Any) -> Any:
        keep(connection, None, self.text, self.bound(values))
        return send(self, connection, values)

    monkeypatch.setattr(Compiled, "send", keep_and_send)
    with database.write() as unit:
        assert unit.leases.lease("w", timedelta(seconds=90), ["f"], 10) == []
        assert unit.leases.rescue(poison_after=5) == []
    assert len(looks) == 3
    for (statement, parameters), index in zip(looks, ["ready", "waiting", "running"], strict=True):
        plan = explain(database, statement, parameters)
        assert f"ix_runs_{index}" in plan, plan
        assert "TEMP B-TREE" not in plan, plan
        assert "Sort" not in plan, plan
        assert "Seq Scan on runs" not in plan, plan
