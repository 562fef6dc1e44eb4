"""Statements about polls: leases, fences, versions, occurrences."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.dialects import postgresql

import store.tables  # noqa: F401  (registers them)
from hermes.ports.polls import OccurrenceEnd, PollDefinition, PollStatus
from hermes.testing.clock import FakeClock
from store.poll_leasing import DUE_COUNT, WAITING, finish_statement

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def database(databases, clock):
    return databases.open(clock)


def definition(name: str, clock: FakeClock, version: str = "v1", **changes) -> PollDefinition:
    values = {
        "user_id": "default",
        "workspace_id": "default",
        "priority": 5,
        "enabled": True,
        "definition": {"poll": name, "version": version},
        "condition_version": "c1",
        "schedule_version": "s1",
        "first_due_at": clock.now(),
        "first_start_at": clock.now(),
    }
    return PollDefinition(poll_id=name, definition_version=version, **{**values, **changes})


def lease(database, *, wanted=lambda *_: True, limit=10, owner="boot-1"):
    with database.write() as unit:
        return unit.polls.lease_due(owner, MINUTE, limit, wanted)


def end(clock, *, ok=True, record=False, **changes) -> OccurrenceEnd:
    following = clock.now() + 10 * MINUTE
    return OccurrenceEnd(ok=ok, next_due_at=following, next_start_at=following, record=record, **changes)


def test_versions_are_kept_for_ever(database, clock):
    for version in ("v1", "v2", "v1"):
        with database.write() as unit:
            unit.polls.sync_definitions([definition("tasks", clock, version)])
    with database.read() as unit:
        assert unit.polls.definition("tasks", "v1") == {"poll": "tasks", "version": "v1"}
        assert unit.polls.definition("tasks", "v2") == {"poll": "tasks", "version": "v2"}
        assert unit.polls.definition("tasks", "v3") is None
        assert unit.polls.get("tasks").definition_version == "v1"


def test_the_same_definitions_again_change_nothing(database, clock):
    definitions = [definition(f"poll-{n}", clock) for n in range(30)]
    with database.write() as unit:
        assert len(unit.polls.sync_definitions(definitions).added) == 30
    with database.write() as unit:
        changes = unit.polls.sync_definitions(definitions)
    assert (changes.added, changes.edited, changes.removed, changes.returned) == ((), (), (), ())


def test_a_lease_is_exclusive_until_it_ends_and_its_fence_grows(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock)])
    (first,) = lease(database)
    assert lease(database) == []
    clock.advance(MINUTE)
    (second,) = lease(database, owner="boot-2")
    assert second.fence == first.fence + 1
    assert second.due_at == first.due_at
    with database.write() as unit:
        assert not unit.polls.finish(first, end(clock))
        assert unit.polls.extend(first, MINUTE) is None
        assert not unit.polls.postpone(first, clock.now())
        assert unit.polls.extend(second, 2 * MINUTE) == clock.now() + 2 * MINUTE
        assert unit.polls.finish(second, end(clock))
        assert not unit.polls.finish(second, end(clock)), "once only"


def test_a_lost_lease_records_no_occurrence(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock)])
    (first,) = lease(database)
    clock.advance(MINUTE)
    lease(database, owner="boot-2")
    with database.write() as unit:
        assert not unit.polls.finish(first, end(clock, record=True))
        assert unit.polls.occurrences("tasks") == []


def test_polls_that_nobody_here_knows_do_not_hide_those_behind_them(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition(f"poll-{n:03}", clock) for n in range(100)])
    leases = lease(database, wanted=lambda name, _: name >= "poll-095", limit=4)
    assert [entry.poll_id for entry in leases] == ["poll-095", "poll-096", "poll-097", "poll-098"]


def test_one_occurrence_for_a_due_instant_however_often_it_is_tried(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock)])
    due = clock.now()
    for attempt in (1, 2, 3):
        (held,) = lease(database)
        outcome = OccurrenceEnd(
            ok=attempt == 3,
            next_due_at=due,
            next_start_at=clock.now(),
            record=True,
            error=None if attempt == 3 else "down",
            matched=attempt,
        )
        with database.write() as unit:
            assert unit.polls.finish(held, outcome)
        clock.advance(MINUTE)
    with database.read() as unit:
        (seen,) = unit.polls.occurrences("tasks")
        row = unit.polls.get("tasks")
    assert (seen.attempts, seen.state, seen.matched, seen.error) == (3, "ok", 3, None)
    assert (row.matched_count, row.occurrence_count) == (6, 3)


def test_what_is_not_given_is_left_alone(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock)])
    (held,) = lease(database)
    with database.write() as unit:
        unit.polls.finish(held, end(clock, cursor="c1", watermark=clock.now(), note="n"))
    clock.advance(10 * MINUTE)
    (held,) = lease(database)
    assert held.cursor == "c1"
    with database.write() as unit:
        unit.polls.finish(held, end(clock, ok=False, fatal=True, error="x"))
        row = unit.polls.get("tasks")
    assert (row.cursor, row.watermark is not None, row.status) == ("c1", True, PollStatus.active)
    assert (row.failure_count, row.fatal_count, row.last_error) == (1, 1, "x")
    assert row.last_ok_at is not None


def test_pausing_and_resuming_say_whether_they_did_anything(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock), definition("off", clock, enabled=False)])
        assert unit.polls.pause("tasks")
        assert not unit.polls.pause("tasks")
        assert unit.polls.resume("tasks")
        assert not unit.polls.resume("tasks")
        assert not unit.polls.pause("off")
        assert not unit.polls.resume("nobody")


def test_removed_polls_are_listed_only_when_asked_for(database, clock):
    with database.write() as unit:
        unit.polls.sync_definitions([definition("tasks", clock)])
        unit.polls.sync_definitions([])
        assert unit.polls.all() == []
        assert [row.health for row in unit.polls.all(removed=True)] == ["removed"]


def test_a_poll_without_a_name_is_refused_by_the_database(database, clock):
    from sqlalchemy.exc import IntegrityError

    with pytest.raises(IntegrityError), database.write() as unit:
        unit.polls.sync_definitions([definition(" ", clock)])


def test_on_postgresql_waiting_polls_are_passed_over_when_another_holds_them():
    dialect = postgresql.dialect()
    assert str(WAITING.compile(dialect=dialect)).endswith("FOR UPDATE SKIP LOCKED")
    DUE_COUNT.compile(dialect=dialect)
    flags = {"skipped": False, "by_hand": True, "disabled": True, "cursor": True, "watermark": True}
    statement, names = finish_statement(ok=False, **flags)
    text = str(statement.compile(dialect=dialect))
    assert all(f"%({name})s" in text for name in names)
