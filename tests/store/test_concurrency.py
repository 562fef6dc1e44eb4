"""Connections that meet: leases, places and rows that several want to make are exact, and nobody waits for long."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from hermes.clock import SystemClock
from hermes.model.card import Card, CardStatus
from hermes.model.run import NewRun, RunKind, RunState
from hermes.model.step import LeasedRun
from hermes.ports.polls import PollDefinition
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases, PostgresServer, postgres_databases
from store.database import Database
from store.unit_of_work import UnitOfWork

LEASE = timedelta(seconds=60)


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[Databases]:
    with postgres_databases(postgres_server) as databases:
        yield databases


def at_once(number: int, what: Callable[[int], Any]) -> list[Any]:
    """`what` in threads that begin together."""
    barrier = threading.Barrier(number)

    def begin(which: int) -> Any:
        barrier.wait(20)
        return what(which)

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(begin, range(number)))


def lease(database: Database, owner: str, limit: int = 3) -> list[LeasedRun]:
    return database.commit(lambda unit: unit.leases.lease(owner, LEASE, ["f"], limit))


def test_C1_many_workers_lease_every_run_once_and_no_place_twice(databases: Databases) -> None:
    clock = FakeClock()
    stores = [databases.open(clock) for _ in range(6)]
    runs, places, most = 60, 4, Counter[str]()
    with stores[0].write() as unit:
        unit.places.set_places("g", places)
        for number in range(runs):
            group = "g" if number % 2 else None
            unit.runs.enqueue(NewRun(f"k{number}", RunKind.function, "f", {}, place_group=group))
    working: set[str] = set()
    mutex = threading.Lock()
    leased: list[str] = []

    def work(which: int) -> None:
        while True:
            taken = lease(stores[which], f"w{which}")
            with mutex:
                for one in taken:
                    leased.append(one.run.key)
                    if one.run.place_group:
                        working.add(one.run.id)
                most["g"] = max(most["g"], len(working))
            for one in taken:
                with mutex:  # before its place is free for others
                    working.discard(one.run.id)
                stores[which].commit(lambda unit, one=one: unit.endings.end(one.lease, RunState.succeeded))
            if not taken:
                with stores[which].read() as unit:
                    if not unit.runs.list(states=[RunState.ready, RunState.running], limit=1):
                        return

    at_once(len(stores), work)
    assert Counter(leased) == Counter(f"k{number}" for number in range(runs))
    assert 1 <= most["g"] <= places
    with stores[0].read() as unit:
        assert unit.places.free_places("g") == places
        assert {run.fence for run in unit.runs.list(limit=100)} == {1}


def test_D6_rescuers_free_each_run_once(databases: Databases) -> None:
    clock = FakeClock()
    stores = [databases.open(clock) for _ in range(4)]
    for number in range(30):
        stores[0].commit(lambda unit, n=number: unit.runs.enqueue(NewRun(f"k{n}", RunKind.function, "f", {})))
    assert len(lease(stores[0], "dead", 30)) == 30
    clock.advance(LEASE * 2)

    def rescue(which: int) -> list[str]:
        with stores[which].write() as unit:
            return unit.leases.rescue(poison_after=5)

    freed = [run for found in at_once(4, rescue) for run in found]
    assert len(freed) == len(set(freed)) == 30
    with stores[0].read() as unit:
        assert {(run.take_overs, run.crashes) for run in unit.runs.list(limit=50)} == {(1, 1)}


def test_whoever_leases_passes_over_what_another_has_under_its_hands(postgres: Databases) -> None:
    database = postgres.open(FakeClock())
    for key in ("a", "b"):
        database.commit(lambda unit, key=key: unit.runs.enqueue(NewRun(key, RunKind.function, "f", {})))
    with psycopg.connect(postgres.url()) as other:
        other.execute("SELECT 1 FROM runs WHERE key = 'a' FOR UPDATE")
        with database.write() as unit:
            unit.connection.exec_driver_sql("SET LOCAL lock_timeout = '1ms'")  # whoever waits would fail
            assert [one.run.key for one in unit.leases.lease("w", LEASE, ["f"], 5)] == ["b"]
            assert unit.leases.rescue(poison_after=5) == []
    assert [one.run.key for one in lease(database, "w")] == ["a"]


def test_whoever_needs_a_place_passes_over_one_that_is_being_taken(postgres: Databases) -> None:
    database = postgres.open(FakeClock())
    with database.write() as unit:
        unit.places.set_places("g", 2)
        unit.runs.enqueue(NewRun("k", RunKind.function, "f", {}, place_group="g"))
    with psycopg.connect(postgres.url()) as other:
        other.execute("SELECT 1 FROM places WHERE slot = 0 FOR UPDATE")
        with database.write() as unit:
            unit.connection.exec_driver_sql("SET LOCAL lock_timeout = '1ms'")
            assert len(unit.leases.lease("w", LEASE, ["f"], 1)) == 1
        assert other.execute("SELECT slot FROM places WHERE run_id IS NOT NULL").fetchall() == [(1,)]


def test_a_heartbeat_waits_for_no_run_that_another_transaction_has_locked(postgres: Databases) -> None:
    database = postgres.open(FakeClock())
    for key in ("a", "b", "c"):
        database.commit(lambda unit, key=key: unit.runs.enqueue(NewRun(key, RunKind.function, "f", {})))
    leases = {one.run.key: one.lease for one in lease(database, "w")}
    with psycopg.connect(postgres.url()) as other:
        other.execute("UPDATE runs SET duplicates = 1 WHERE key = 'b'")
        with database.write(urgent=True) as unit:
            unit.connection.exec_driver_sql("SET LOCAL lock_timeout = '1ms'")
            kept = unit.leases.renew("w", leases.values(), LEASE, waits=False)
        assert kept == {leases["a"], leases["c"]}
    with database.write(urgent=True) as unit:
        assert unit.leases.renew("w", [leases["b"]], LEASE) == {leases["b"]}


def test_a_heartbeat_waits_for_nobodys_connection(postgres: Databases) -> None:
    database = postgres.open(FakeClock(), connections=1)
    taken = [database.engine.connect() for _ in range(2)]  # all there are
    with database.write(urgent=True) as unit:
        assert unit.leases.renew("w", [], LEASE) == set()
    for connection in taken:
        connection.close()


def definition(name: str, now: datetime) -> PollDefinition:
    return PollDefinition(
        poll_id=name,
        user_id="default",
        workspace_id="default",
        priority=5,
        enabled=True,
        definition={"poll": name},
        definition_version="v1",
        condition_version="c1",
        schedule_version="s1",
        first_due_at=now,
        first_start_at=now,
    )


def test_processes_that_start_together_make_each_row_once(databases: Databases) -> None:
    clock = FakeClock()
    stores = [databases.open(clock) for _ in range(6)]
    blank: dict[str, Any] = dict.fromkeys(Card.__dataclass_fields__)
    seen = {"id": "card", "url": "", "title": "t", "status": CardStatus.todo, "priority_rank": 0.0}
    card = Card(**{**blank, **seen, "created_at": clock.now(), "properties": {}})

    def start(which: int) -> tuple[str, int, bool]:
        with stores[which].write() as unit:
            name = unit.installation.name()
        with stores[which].write() as unit:
            added = unit.polls.sync_definitions([definition(f"p{n}", clock.now()) for n in range(5)]).added
            unit.places.set_places("p0", 2)
        with stores[which].write() as unit:
            unit.claims.note_board("board", name=f"by {which}")
        with stores[which].write() as unit:
            offered = unit.claims.offer("board", "p0", card, {}, clock.now())
        with stores[which].write() as unit:
            unit.limits.hold("credential")
        return name, len(added), offered

    started = at_once(6, start)
    assert len({name for name, _, _ in started}) == 1
    assert sum(added for _, added, _ in started) == 5
    with stores[0].read() as unit:
        assert [poll.poll_id for poll in unit.polls.all()] == [f"p{n}" for n in range(5)]
        assert unit.places.free_places("p0") == 2
        assert len(unit.claims.list()) == 1
        assert unit.claims.board("board").name.startswith("by ")


# -- C7: whose clock decides


class Skewed(SystemClock):
    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


def test_C7_leases_are_decided_by_the_servers_clock_however_wrong_a_workers_is(postgres: Databases) -> None:
    fast = postgres.open(Skewed(timedelta(minutes=5)), lease_clock=None)
    slow = postgres.open(Skewed(-timedelta(minutes=5)), lease_clock=None)
    for database in (fast, slow):
        with database.read() as unit:
            assert abs(unit.now - SystemClock().now()) < timedelta(seconds=30)
    fast.commit(lambda unit: unit.runs.enqueue(NewRun("k", RunKind.function, "f", {})))
    (held,) = lease(slow, "slow")  # due at once, although its worker believes that it is five minutes earlier

    def rescued(database: Database) -> list[str]:
        with database.write() as unit:
            return unit.leases.rescue(poison_after=5)

    assert rescued(fast) == []
    assert lease(fast, "fast") == []
    asked = "SELECT lease_until - clock_timestamp() FROM runs"
    with psycopg.connect(postgres.url()) as plain:
        left = plain.execute(asked).fetchone()
        assert left is not None
        assert timedelta(seconds=30) < left[0] <= LEASE
        plain.execute("UPDATE runs SET lease_until = clock_timestamp() - interval '1 ms'")
    assert rescued(slow) == [held.run.id]


def test_the_instant_of_a_transaction_is_taken_when_it_begins_and_moves_on(postgres: Databases) -> None:
    database = postgres.open(SystemClock(), lease_clock=None)
    seen = []
    for _ in range(3):
        with database.write() as unit:
            seen.append(unit.now)
    assert sorted(set(seen)) == seen
    assert all(at.tzinfo is not None for at in seen)


def test_bookkeeping_does_not_wait_for_the_disk_and_what_counts_does(postgres: Databases) -> None:
    name = make_url(postgres.url()).database
    with psycopg.connect(postgres.url(), autocommit=True) as plain:
        plain.execute(f"ALTER DATABASE {name} SET synchronous_commit = 'on'")
    database = postgres.open(FakeClock())

    def waits(unit: UnitOfWork) -> str:
        return str(unit.connection.exec_driver_sql("SHOW synchronous_commit").scalar_one())

    for _ in range(2):
        with database.write(durable=False) as unit:
            assert waits(unit) == "off"
        with database.write() as unit:
            assert waits(unit) == "on"
        assert database.commit(waits) == "on"
