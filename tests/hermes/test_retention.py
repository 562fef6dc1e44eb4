"""Once a night: whichever process comes first, however many there are, and what was missed is made up for."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update

from hermes.model.run import NewRun, RunKind, RunState
from hermes.retention import Ages, Nightly, Pruning, last_due
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from store.database import Database
from store.tables.runs import RUNS

DAY = timedelta(days=1)
AGES = Ages(timeline=90 * DAY, runs=90 * DAY, failed=180 * DAY, keys=None, occurrences=90 * DAY)
BERLIN = ZoneInfo("Europe/Berlin")
AT = time(3, 30)


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.open(FakeClock(datetime(2026, 1, 5, 1, 0, tzinfo=UTC)))


def nightly(database: Database, owner: str = "one") -> Nightly:
    return Nightly(database, AGES, AT, ZoneInfo("UTC"), owner, database.clock)


def end_one(database: Database, key: str) -> str:
    """Ended long ago."""
    with database.write() as unit:
        run_id, _ = unit.runs.enqueue(NewRun(key, RunKind.function, "f", {}))
        (leased,) = unit.leases.lease("w", timedelta(minutes=1), ["f"], 1)
        unit.endings.end(leased.lease, RunState.succeeded, result_json="1")
    clock = database.clock
    assert isinstance(clock, FakeClock)
    clock.advance(91 * DAY)
    return run_id


def whole(database: Database, run_id: str) -> bool:
    with database.read() as unit:
        run = unit.runs.get(run_id)
    assert run is not None
    return run.whole


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-01-05T02:29:59", "2026-01-04T02:30:00"),
        ("2026-01-05T02:30:00", "2026-01-05T02:30:00"),
        ("2026-01-05T23:30:00", "2026-01-05T02:30:00"),  # past midnight there
        ("2026-03-29T01:29:00", "2026-03-28T02:30:00"),
        ("2026-03-29T01:30:00", "2026-03-29T01:30:00"),  # summer time has begun an hour and a half before
        ("2026-07-01T12:00:00", "2026-07-01T01:30:00"),
    ],
)
def test_when_a_night_is_due(now: str, due: str) -> None:
    found = last_due(datetime.fromisoformat(now).replace(tzinfo=UTC), AT, BERLIN)
    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_once_a_night_and_installation(database: Database) -> None:
    clock = database.clock
    assert isinstance(clock, FakeClock)
    first, second = end_one(database, "a"), end_one(database, "b")
    with database.write() as unit:
        unit.connection.execute(update(RUNS).where(RUNS.c.id == second).values(finished_at=unit.now))
    one, other = nightly(database), nightly(database, "other")
    one.tick()
    assert not whole(database, first)
    with database.write() as unit:
        unit.connection.execute(update(RUNS).where(RUNS.c.id == second).values(finished_at=unit.now - 100 * DAY))
    other.tick()
    clock.advance(timedelta(hours=2, minutes=29))  # 3:29
    other.tick()
    assert whole(database, second)
    clock.advance(timedelta(minutes=1))
    for process in (one, other, nightly(database, "a third")):
        process.tick()
    with database.read() as unit:
        runs = unit.polls.occurrences("hermes:retention")
    assert len(runs) == 2
    assert runs[0].note == "runs 1, timeline 3"
    assert not whole(database, second)


def test_a_night_that_nobody_was_up_is_made_up_for(database: Database) -> None:
    run_id = end_one(database, "a")
    clock = database.clock
    assert isinstance(clock, FakeClock)
    clock.advance(timedelta(hours=11))  # noon
    nightly(database).tick()
    assert not whole(database, run_id)


def test_a_process_that_stops_leaves_the_rest_to_the_next(database: Database) -> None:
    run_id = end_one(database, "a")
    stopping = nightly(database)
    stopping.stop()
    stopping.tick()
    with database.read() as unit:
        assert unit.polls.occurrences("hermes:retention") == []
    nightly(database, "other").tick()
    with database.read() as unit:
        assert len(unit.polls.occurrences("hermes:retention")) == 1
    assert not whole(database, run_id)


def test_two_that_come_at_once_do_it_once(database: Database) -> None:
    run_id = end_one(database, "a")
    resting, go_on = threading.Event(), threading.Event()

    def rest() -> None:
        resting.set()
        assert go_on.wait(30)

    slow = Pruning(database, AGES, "slow", rest=rest)
    thread = threading.Thread(target=slow.work)
    thread.start()
    assert resting.wait(30)
    other = nightly(database, "other")
    other.tick()
    with database.read() as unit:
        assert unit.polls.occurrences("hermes:retention") == [], "it was not its turn"
    go_on.set()
    thread.join(30)
    assert not whole(database, run_id)
    other.tick()
    with database.read() as unit:
        assert [one.note for one in unit.polls.occurrences("hermes:retention")] == ["nothing was old enough"]
