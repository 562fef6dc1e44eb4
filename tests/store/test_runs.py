"""Statements on runs: keys at the door, holds, places, the order of leasing, cancelling and resuming."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError
from sqlmodel.sql.sqltypes import UTCDateTime

import store.tables  # noqa: F401 - registers them
from hermes.model.key import MAX_KEY, checked_key
from hermes.model.run import EffectClass, NewRun, RunError, RunKind, RunState
from hermes.model.step import StepKind, StepState
from hermes.ports.pending import NewStep, Pending
from hermes.ports.runs import Resumed
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases, sqlite_files
from store.database import Database
from store.tables.runs import PLACES, RECEIPTS, RUNS, STEPS, TIMELINE

LEASE = timedelta(seconds=90)


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases.open(FakeClock())


@pytest.fixture
def sqlite_database(folder: Path) -> Iterator[Database]:
    with sqlite_files(folder) as files:
        yield files.open(FakeClock())


def enqueue(database: Database, key: str, **fields: Any) -> str:
    with database.write() as unit:
        new = NewRun(key, fields.pop("kind", RunKind.function), "f", fields.pop("args", {}), **fields)
        return unit.runs.enqueue(new)[0]


def lease(database: Database, limit: int = 10, owner: str = "w") -> list[str]:
    with database.write() as unit:
        return [leased.run.key for leased in unit.leases.lease(owner, LEASE, ["f"], limit)]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("\u2003\u3000", "empty"),
        (" a", "white space"),
        ("a\n", "white space"),
        ("a\x00b", "control"),
        ("a\nb", "control"),
        ("a\u2028b", "control"),
        ("\ud800", "control"),
        ("\u200b\u200b", "seen"),
        ("k" * (MAX_KEY + 1), "at most 500"),
        (None, "text"),
        (5, "text"),
    ],
)
def test_D7_odd_keys_are_refused_at_the_door(database: Database, key: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        enqueue(database, key)
    with database.read() as unit:
        assert unit.runs.list() == []


@pytest.mark.parametrize("key", ["a", "a b", "página:3:shell", "🧑‍🚀", "k" * MAX_KEY, "effect|a%20b"])
def test_ordinary_keys_are_kept_as_they_are(database: Database, key: str) -> None:
    run_id = enqueue(database, key)
    with database.read() as unit:
        assert unit.runs.by_key(key) == unit.runs.get(run_id)
        assert unit.runs.get(run_id).key == key  # type: ignore[union-attr]


def test_D7_keys_that_look_alike_are_one(database: Database) -> None:
    assert enqueue(database, "caf\u00e9") == enqueue(database, "cafe\u0301")


@given(st.text(max_size=30))
def test_a_checked_key_checks_to_itself(text: str) -> None:
    try:
        key = checked_key(text)
    except ValueError:
        return
    assert checked_key(key) == key
    assert key.strip() == key != ""


def test_D7_the_database_itself_refuses_an_empty_key(database: Database) -> None:
    enqueue(database, "k")
    with pytest.raises(IntegrityError), database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE runs SET key = '  '")


@pytest.mark.parametrize("text", ["", "  ", "\x00", "a\x00b", "e\u0301 and \u00e9", "🧑‍🚀", "'; --", "x" * 10_240])
def test_D7_odd_texts_are_kept_and_cost_no_run(database: Database, text: str) -> None:
    """Messages, reasons and names come from outside. PostgreSQL keeps no NUL, and counts what a column may hold."""
    run_id = enqueue(database, "k", args={"text": text})
    with database.write() as unit:
        (leased,) = unit.leases.lease("w", LEASE, ["f"], 1)
        unit.steps.begin_attempt(leased.lease, 1, "c", effect=EffectClass.keyed, args_json="{}", attempt=1)
        unit.steps.record_failure(leased.lease, 1, 1, RunError(text or "E", text, text), afresh=False)
        unit.endings.end(leased.lease, RunState.failed, error=RunError(text or "E", text, text), reason=text)
    with database.read() as unit:
        run, (step,) = unit.runs.get(run_id), unit.runs.steps(run_id)
    assert run is not None
    assert run.error is not None
    assert run.args == {"text": text}
    assert (run.state, step.state) == (RunState.failed, StepState.failed)
    for kept in (run.error.message, run.error.trace, run.reason):
        assert kept in (text, text.replace("\x00", "\ufffd"))


def test_a_second_run_of_a_key_is_the_first_and_counted(database: Database) -> None:
    with database.write() as unit:
        first = unit.runs.enqueue(NewRun("k", RunKind.card, "f", {"a": 1}))
        second = unit.runs.enqueue(NewRun("k", RunKind.card, "g", {"a": 2}, run_id="chosen"))
    assert (first[0], first[1], second) == (second[0], True, (first[0], False))
    with database.read() as unit:
        run = unit.runs.get(first[0])
    assert run is not None
    assert (run.function, run.args, run.duplicates) == ("f", {"a": 1}, 1)


def test_a_run_id_may_be_chosen_beforehand(database: Database) -> None:
    assert enqueue(database, "k", run_id="known-to-the-board") == "known-to-the-board"


def test_lower_priority_numbers_run_first_then_the_older(database: Database) -> None:
    now = database.clock.now()
    for key, priority, age in [("c", 1.0, 3), ("a", -1.0, 1), ("d", 1.0, 2), ("b", 0.0, 9), ("e", float("inf"), 99)]:
        enqueue(database, key, priority=priority, due_at=now - timedelta(seconds=age))
    assert lease(database, 2) == ["a", "b"]
    assert lease(database) == ["c", "d", "e"]


def test_what_is_not_due_held_or_known_is_not_leased(database: Database) -> None:
    enqueue(database, "later", due_at=database.clock.now() + timedelta(seconds=1))
    enqueue(database, "held", held=True)
    with database.write() as unit:
        unit.runs.enqueue(NewRun("unknown", RunKind.function, "g", {}))
    assert lease(database) == []
    assert lease(database, limit=0) == []


def test_a_full_group_does_not_stand_before_the_others(database: Database) -> None:
    with database.write() as unit:
        unit.places.set_places("g", 2)
    for number in range(50):
        enqueue(database, f"g{number:02}", place_group="g", priority=-1)
    enqueue(database, "free")
    assert lease(database, 3) == ["g00", "g01"]  # the third of the first look found no place
    assert lease(database, 3) == ["free"]


def test_a_group_without_places_runs_nothing(database: Database) -> None:
    enqueue(database, "k", place_group="nobody set it")
    assert lease(database) == []


def test_a_place_may_be_taken_for_a_run_that_does_not_exist_yet(database: Database) -> None:
    soon = database.clock.now() + LEASE
    with database.write() as unit:
        unit.places.set_places("g", 1)
        assert unit.places.take_place("g", "future", soon)
        assert unit.places.take_place("g", "future", soon)  # its own again
        assert not unit.places.take_place("g", "another", soon)
    enqueue(database, "other", place_group="g")
    assert lease(database) == []
    enqueue(database, "k", place_group="g", run_id="future")
    assert lease(database) == ["k"]
    with database.write() as unit:
        unit.places.release_place("future")
    assert lease(database) == ["other"]


def test_a_place_past_its_time_is_free_and_a_lost_place_is_taken_anew(database: Database) -> None:
    with database.write() as unit:
        unit.places.set_places("g", 1)
        assert unit.places.take_place("g", "mine", database.clock.now() + timedelta(seconds=10))
    database.clock.advance(timedelta(seconds=11))  # type: ignore[attr-defined]
    with database.write() as unit:
        assert unit.places.free_places("g") == 1
        assert unit.places.take_place("g", "another", database.clock.now() + timedelta(seconds=10))
    enqueue(database, "k", place_group="g", run_id="mine")
    assert lease(database) == []
    database.clock.advance(timedelta(seconds=11))  # type: ignore[attr-defined]
    assert lease(database) == ["k"]


def test_places_may_become_more_or_fewer(database: Database) -> None:
    with database.write() as unit:
        for count in (3, 3, 1, 0, 2):
            unit.places.set_places("g", count)
            assert unit.places.free_places("g") == count


def test_holding_and_releasing(database: Database) -> None:
    run_id = enqueue(database, "k")
    later = database.clock.now() + timedelta(minutes=5)
    with database.write() as unit:
        assert unit.runs.hold(run_id, "waits for its claim")
        assert unit.runs.get(run_id).reason == "waits for its claim"  # type: ignore[union-attr]
    assert lease(database) == []
    with database.write() as unit:
        assert unit.runs.release_hold(run_id, later)
        assert not unit.runs.release_hold(run_id)
    assert lease(database) == []
    database.clock.advance(timedelta(minutes=5))  # type: ignore[attr-defined]
    assert lease(database) == ["k"]
    with database.write() as unit:
        assert not unit.runs.hold(run_id, "it runs")


def test_releasing_a_sleeping_run_does_not_wake_it(database: Database) -> None:
    run_id = enqueue(database, "k")
    with database.write() as unit:
        (leased,) = unit.leases.lease("w", LEASE, ["f"], 1)
        unit.endings.hibernate(leased.lease, database.clock.now() + timedelta(hours=1), "sleeps")
        assert unit.runs.hold(run_id, "its card was claimed away")
        assert unit.runs.release_hold(run_id, database.clock.now())
    assert lease(database) == []


@pytest.mark.parametrize("state", [state for state in RunState if state.final])
def test_what_may_be_resumed(database: Database, state: RunState) -> None:
    run_id = enqueue(database, "k")
    with database.write() as unit:
        (leased,) = unit.leases.lease("w", LEASE, ["f"], 1)
        unit.endings.end(leased.lease, state, reason="x")
    with database.write() as unit:
        expected = Resumed.resumed if state in (RunState.failed, RunState.parked, RunState.cancelled) else None
        assert unit.runs.resume(run_id) is (expected or Resumed.not_stopped)
        assert unit.runs.resume("no such run") is Resumed.unknown_run


def test_a_resume_that_waits_for_a_claim_is_held(database: Database) -> None:
    run_id = enqueue(database, "k")
    with database.write() as unit:
        unit.runs.cancel(run_id, "people")
        unit.runs.resume(run_id, held=True)
    assert lease(database) == []
    with database.write() as unit:
        unit.runs.release_hold(run_id)
    assert lease(database) == ["k"]


def test_lists_for_people(database: Database) -> None:
    for number in range(5):
        enqueue(database, f"k{number}", kind=RunKind.card if number % 2 else RunKind.function, object_id=f"o{number}")
        database.clock.advance(timedelta(seconds=1))  # type: ignore[attr-defined]
    with database.read() as unit:
        newest = unit.runs.list(limit=2)
        assert [run.key for run in newest] == ["k4", "k3"]
        assert [run.key for run in unit.runs.list(limit=2, before=newest[-1].created_at)] == ["k2", "k1"]
        assert [run.key for run in unit.runs.list(kind="card")] == ["k3", "k1"]
        assert [run.key for run in unit.runs.list(object_id="o2")] == ["k2"]
        assert unit.runs.list(states=[RunState.failed]) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.integers(0, 4),
    moves=st.lists(
        st.sampled_from(["enqueue", "enqueue", "lease", "lease", "end", "hibernate", "die", "time"]),
        min_size=12,
        max_size=40,
    ),
)
def test_no_more_runs_of_a_group_run_than_it_has_places(database: Database, places: int, moves: list[str]) -> None:
    with database.write() as unit:
        unit.connection.execute(RUNS.delete().where(sqlalchemy.true()))
        unit.connection.exec_driver_sql("DELETE FROM places")
        unit.places.set_places("g", places)
    running: list[Any] = []
    for number, move in enumerate(moves):
        with database.write() as unit:
            if move == "enqueue":
                unit.runs.enqueue(NewRun(f"k{number}", RunKind.function, "f", {}, place_group="g"))
            elif move == "lease":
                running += [leased.lease for leased in unit.leases.lease("w", LEASE, ["f"], 3)]
            elif move == "end" and running:
                unit.endings.end(running.pop(0), RunState.succeeded)
            elif move == "hibernate" and running:
                unit.endings.hibernate(running.pop(), unit.now, "waits")
            elif move == "die" and running:
                running.pop()
            elif move == "time":
                database.clock.advance(timedelta(seconds=30))  # type: ignore[attr-defined]
                unit.leases.rescue(poison_after=99)
        with database.read() as unit:
            alive = [run for run in unit.runs.list(states=[RunState.running]) if run.lease_until > unit.now]  # type: ignore[operator]
            assert len(alive) <= places
            held = {lease.run_id for lease in running} & {run.id for run in alive}
            running = [lease for lease in running if lease.run_id in held]


def test_every_instant_is_kept_in_one_form_since_the_database_compares_text(sqlite_database: Database) -> None:
    """Where a statement does not know that a parameter is an instant, the driver writes it in a form of its own."""
    database = sqlite_database
    soon = database.clock.now() + timedelta(seconds=5)
    error = RunError("ValueError", "no")
    with database.write() as unit:
        unit.places.set_places("g", 1)
        for number in range(6):
            unit.runs.enqueue(NewRun(f"k{number}", RunKind.function, "f", {}, held=number == 0, run_id=f"r{number}"))
        unit.places.take_place("g", "r0", soon)
        unit.runs.release_hold("r0", soon)
        leases = {leased.run.id: leased.lease for leased in unit.leases.lease("w", LEASE, ["f"], 9)}
        unit.endings.redeliver(leases["r1"], error, soon)
        unit.endings.hibernate(leases["r2"], soon, "waits")
        for number in (3, 4):
            unit.steps.begin_attempt(
                leases[f"r{number}"],
                2,
                "x",
                effect=EffectClass.keyed,
                args_json="{}",
                attempt=1,
                pending=Pending((NewStep(1, StepKind.delay, "delay", wait=timedelta(seconds=5)),)),
            )
        unit.steps.retry_later(leases["r3"], 2, 1, error, soon, state=StepState.retry)
        unit.steps.record_result(leases["r4"], 2, 1, "1")
        unit.endings.end(leases["r4"], RunState.failed, error=error)
        unit.runs.resume("r4")
        unit.leases.renew("w", [leases["r5"]], LEASE)
        unit.leases.hand_back(leases["r5"])
        unit.steps.add_receipt("r5", 1, 1, "x", "1")
    seen, odd = 0, []
    with database.read() as unit:
        for table in (RUNS, STEPS, RECEIPTS, TIMELINE, PLACES):
            for column in table.c:
                if isinstance(column.type, UTCDateTime):
                    values = unit.connection.exec_driver_sql(f"SELECT {column.name} FROM {table.name}").scalars()
                    kept = [(table.name, column.name, value) for value in values if value is not None]
                    seen += len(kept)
                    odd += [value for value in kept if len(value[2]) != len("2026-01-05 09:00:00.000000")]
    assert seen > 50
    assert odd == []
