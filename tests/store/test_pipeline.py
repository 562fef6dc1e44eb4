"""Statements that are believed to change one row: sent together, and the change made again when one did not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from hermes.clock import SystemClock
from hermes.errors import LeaseLost
from hermes.model.run import EffectClass, Lease, NewRun, RunKind
from hermes.testing.databases import Databases
from store.database import Database
from store.unit_of_work import UnitOfWork


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.open(SystemClock())


def leased(database: Database) -> Lease:
    with database.write() as unit:
        unit.runs.enqueue(NewRun("key", RunKind.function, "f", {}))
        (run,) = unit.leases.lease("me", timedelta(seconds=90), ["f"], 1)
    return run.lease


def begin(unit: UnitOfWork, lease: Lease) -> None:
    unit.steps.begin_attempt(lease, 1, "act", effect=EffectClass.keyed, args_json="{}", attempt=1)


def whats(database: Database, lease: Lease) -> list[str]:
    with database.read() as unit:
        return [entry.what for entry in unit.runs.timeline(lease.run_id)]


def test_a_change_is_made_once_when_all_is_as_believed(database: Database) -> None:
    lease = leased(database)
    calls = []

    def change(unit: UnitOfWork) -> None:
        calls.append(1)
        begin(unit, lease)
        unit.steps.record_result(lease, 1, 1, "1")

    database.commit(change)
    assert len(calls) == 1
    assert whats(database, lease) == ["enqueued", "leased", "attempt", "result"]


def test_a_former_holder_is_told_so_and_nothing_is_kept(database: Database) -> None:
    lease = leased(database)
    stale = Lease(lease.run_id, "somebody else", lease.fence, lease.until)
    before = whats(database, lease)
    with pytest.raises(LeaseLost):
        database.commit(lambda unit: begin(unit, stale))
    assert whats(database, lease) == before


def test_what_was_made_already_is_not_noted_twice(database: Database) -> None:
    """A commit of unknown outcome is tried again, and finds its rows."""
    lease = leased(database)
    for _ in range(2):
        database.commit(lambda unit: begin(unit, lease))
    for _ in range(2):
        database.commit(lambda unit: unit.steps.record_result(lease, 1, 1, "1"))
    assert whats(database, lease) == ["enqueued", "leased", "attempt", "result"]


def test_what_waits_is_sent_before_any_other_statement(database: Database) -> None:
    lease = leased(database)

    def change(unit: UnitOfWork) -> list[str]:
        begin(unit, lease)
        return [step.name for step in unit.runs.steps(lease.run_id)]

    assert database.commit(change) == ["act"]


def test_an_error_of_the_database_is_one_of_sqlalchemys(database: Database) -> None:
    lease = leased(database)
    nobody = Lease("no such run", lease.owner, lease.fence, lease.until)

    def change(unit: UnitOfWork) -> None:
        unit.steps.add_receipt(nobody.run_id, 1, 1, "act", "1")
        unit.steps.add_receipt(nobody.run_id, 1, 1, None, "1")  # type: ignore[arg-type]

    commits: list[int] = []
    event.listen(database.engine, "commit", lambda _: commits.append(1))
    with pytest.raises(IntegrityError):
        database.commit(change)
    assert commits == []
