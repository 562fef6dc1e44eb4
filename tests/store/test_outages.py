"""What a transaction does when the database gives way, goes away, is full or is damaged (failure catalogue, D)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, make_url
from sqlalchemy.exc import IntegrityError

from hermes.clock import SystemClock
from hermes.errors import StoreDamaged, StoreUnavailable
from hermes.model.run import NewRun, RunKind
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases, PostgresServer, postgres_databases, sqlite_files
from hermes.testing.proxy import COMMIT, Proxy, When
from store.database import Database
from store.outages import TRIES
from store.postgres_engine import Connection
from store.unit_of_work import UnitOfWork


class Sleepless(FakeClock):
    """Notes how often somebody waited, and lets a test do something meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.meanwhile()


@pytest.fixture
def clock() -> Sleepless:
    return Sleepless()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[Databases]:
    with postgres_databases(postgres_server) as databases:
        yield databases


@pytest.fixture
def database(postgres: Databases, clock: Sleepless) -> Database:
    return postgres.open(clock)


@pytest.fixture
def proxy(postgres: Databases, postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def far(postgres: Databases, proxy: Proxy, clock: Sleepless) -> Iterator[Database]:
    """The database behind the proxy."""
    url = make_url(postgres.url()).set(port=proxy.port)
    database = Database(url.render_as_string(), clock, lease_clock=clock)
    yield database
    proxy.pass_on()
    proxy.cut()
    database.close()


def enqueue(unit: UnitOfWork, key: str = "k") -> tuple[str, bool]:
    return unit.runs.enqueue(NewRun(key, RunKind.function, "f", {}))


def keys(database: Database) -> list[str]:
    with database.read() as unit:
        return sorted(run.key for run in unit.runs.list())


def raises_in_the_server(unit: UnitOfWork, code: str) -> None:
    unit.connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$")


# -- D4: it gives way


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "57014", "53300"])
def test_D4_a_transaction_that_gave_way_is_made_again_as_a_whole(
    database: Database, clock: Sleepless, code: str
) -> None:
    calls = []

    def change(unit: UnitOfWork) -> tuple[str, bool]:
        calls.append(1)
        made = enqueue(unit)
        if len(calls) < TRIES:
            raises_in_the_server(unit, code)
        return made

    assert database.commit(change)[1]
    assert len(calls) == TRIES
    assert len(clock.waits) == TRIES - 1
    assert len(set(clock.waits)) > 1  # spread, so that those who met do not meet again
    assert sum(clock.waits) < 2
    with database.read() as unit:
        assert [(run.key, run.duplicates) for run in unit.runs.list()] == [("k", 0)]


def test_D4_one_that_gives_way_for_ever_is_unavailable_after_five_tries(database: Database) -> None:
    calls = []

    def change(unit: UnitOfWork) -> None:
        calls.append(enqueue(unit))
        raises_in_the_server(unit, "40P01")

    with pytest.raises(StoreUnavailable, match="5 times in a row"):
        database.commit(change)
    assert len(calls) == TRIES
    assert keys(database) == []


def test_D4_a_broken_rule_is_raised_at_once(database: Database, clock: Sleepless) -> None:
    calls = []

    def change(unit: UnitOfWork) -> None:
        calls.append(enqueue(unit))
        unit.connection.exec_driver_sql("UPDATE runs SET key = ''")

    with pytest.raises(IntegrityError):
        database.commit(change)
    assert (len(calls), clock.waits) == (1, [])


def test_D4_two_that_lock_in_opposite_order_are_both_made(database: Database, clock: Sleepless) -> None:
    for key in ("a", "b"):
        database.commit(lambda unit, key=key: enqueue(unit, key))
    both_hold_one = threading.Barrier(2)
    calls: list[str] = []

    def change(first: str, second: str) -> None:
        def locking(unit: UnitOfWork) -> None:
            execute = unit.connection.exec_driver_sql
            calls.append(first)
            execute(f"UPDATE runs SET duplicates = duplicates + 1 WHERE key = '{first}'")
            if calls.count(first) == 1:
                both_hold_one.wait(20)
            execute(f"UPDATE runs SET duplicates = duplicates + 1 WHERE key = '{second}'")

        database.commit(locking)

    threads = [threading.Thread(target=change, args=order) for order in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(calls) >= 3
    with database.read() as unit:
        assert {run.duplicates for run in unit.runs.list()} == {2}


def test_D4_a_statement_that_takes_too_long_is_given_up_and_made_again(database: Database) -> None:
    calls = []

    def change(unit: UnitOfWork) -> tuple[str, bool]:
        calls.append(1)
        if len(calls) == 1:
            unit.connection.exec_driver_sql("SET LOCAL statement_timeout = '50ms'")
            unit.connection.exec_driver_sql("SELECT pg_sleep(60)")
        return enqueue(unit)

    assert database.commit(change)[1]
    assert len(calls) == 2


def test_D4_too_many_connections_are_waited_out(
    postgres: Databases, postgres_server: PostgresServer, clock: Sleepless
) -> None:
    url = make_url(postgres.url())
    role = f"one_at_a_time_{url.database}"
    postgres_server.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    postgres_server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", str(url.database))
    postgres_server.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}", str(url.database))
    url = url.set(username=role)
    other = psycopg.connect(url.render_as_string())
    database = Database(url.render_as_string(), clock, lease_clock=clock)

    def leave_at_the_third() -> None:
        if len(clock.waits) == 3:
            other.close()

    clock.meanwhile = leave_at_the_third
    with database.write() as unit:
        assert enqueue(unit)[1]
    assert len(clock.waits) >= 3
    database.close()
    postgres_server.execute(f"DROP OWNED BY {role}", str(url.database))
    postgres_server.execute(f"DROP ROLE {role}")


def test_D4_a_change_that_gives_way_takes_nothing_of_others_with_it(database: Database) -> None:
    """Each change of PostgreSQL is a transaction of its own, so there is nobody to take along."""
    done = threading.Event()

    def refused(unit: UnitOfWork) -> None:
        enqueue(unit, "half done")
        assert in_another_thread(lambda: database.commit(lambda u: enqueue(u, "other"))) is not None
        done.set()
        raise LookupError

    with pytest.raises(LookupError):
        database.commit(refused)
    assert done.is_set()
    assert keys(database) == ["other"]


def in_another_thread(what: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(what()), daemon=True)
    thread.start()
    thread.join(30)
    return found[0] if found else None


# -- D3: it goes away


def test_D3_a_commit_that_was_never_sent_changed_nothing(far: Database, proxy: Proxy) -> None:
    cut = proxy.cut_at(COMMIT, when=When.unsent)
    with pytest.raises(StoreUnavailable):
        far.commit(enqueue)
    assert cut.wait(10)
    assert keys(far) == []
    assert far.commit(enqueue)[1]


@pytest.mark.parametrize("when", [When.sent, When.answered])
def test_D3_after_an_unknown_commit_nothing_is_assumed_and_the_key_tells(
    far: Database, proxy: Proxy, when: When
) -> None:
    calls = []

    def change(unit: UnitOfWork) -> tuple[str, bool]:
        calls.append(enqueue(unit))
        return calls[-1]

    cut = proxy.cut_at(COMMIT, when=when)
    with pytest.raises(StoreUnavailable):
        far.commit(change)
    assert cut.wait(10)
    assert len(calls) == 1  # whether it was made is for the caller to find out
    while not keys(far):  # sent: the server may be at it still
        threading.Event().wait(0.01)
    assert far.commit(enqueue) == (calls[0][0], False)
    assert keys(far) == ["k"]


def test_D3_a_connection_that_died_while_nobody_used_it_is_not_noticed(far: Database, proxy: Proxy) -> None:
    assert far.commit(enqueue)[1]
    assert proxy.cut() >= 1
    with far.write() as unit:
        assert enqueue(unit, "next")[1]
    assert proxy.cut() >= 1
    assert keys(far) == ["k", "next"]


def test_D3_a_server_that_was_restarted_is_not_noticed_either(clock: Sleepless) -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        with postgres_databases(server) as databases:
            database = databases.open(clock)
            assert database.commit(enqueue)[1]
            server.stop(at_once=True)
            with pytest.raises(StoreUnavailable, match=str(TRIES)):
                database.commit(lambda unit: enqueue(unit, "while it is away"))
            clock.waits.clear()
            clock.meanwhile = lambda: server.start() if len(clock.waits) == 2 else None
            with database.write() as unit:
                assert enqueue(unit, "next")[1]
            assert keys(database) == ["k", "next"]
    finally:
        server.close()


def test_D3_a_server_that_keeps_silent_is_given_up(
    far: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "answer_timeout", 0.5)
    began = time.monotonic()
    assert far.commit(enqueue)[1]
    proxy.black_hole()

    def write() -> Any:
        try:
            return far.commit(lambda unit: enqueue(unit, "lost"))
        except StoreUnavailable as exc:
            return str(exc)

    found = in_another_thread(write)
    assert found is not None, "it waits still"
    assert "timeout" in found or "no answer" in found
    assert time.monotonic() - began < 25
    proxy.pass_on()
    assert far.commit(lambda unit: enqueue(unit, "next"))[1]
    assert keys(far) == ["k", "next"]


def test_D3_a_server_that_only_reads_is_unavailable_and_no_bug_of_ours(database: Database) -> None:
    def change(unit: UnitOfWork) -> None:
        unit.connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        enqueue(unit)

    with pytest.raises(StoreUnavailable, match="read-only"):
        database.commit(change)


def test_D3_a_process_that_slept_inside_a_transaction_has_lost_it(database: Database) -> None:
    def change(unit: UnitOfWork) -> None:
        enqueue(unit)
        unit.connection.exec_driver_sql("SET idle_in_transaction_session_timeout = '20ms'")
        pid = unit.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        while in_another_thread(lambda: _is_there(database, pid)):
            pass
        enqueue(unit, "too late")

    with pytest.raises(StoreUnavailable):
        database.commit(change)
    assert keys(database) == []
    assert database.commit(enqueue)[1]


def _is_there(database: Database, pid: int) -> bool:
    with database.read() as unit:
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"
        return bool(unit.connection.exec_driver_sql(asked).scalar_one())


def test_D3_sessions_say_who_they_are_and_how_long_they_wait(database: Database) -> None:
    with database.write(urgent=True) as unit:
        ask = unit.connection.exec_driver_sql
        names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "transaction_isolation")
        found = [ask(f"SHOW {name}").scalar_one() for name in names]
        assert found == ["5s", "20s", "15s", "read committed"]
        assert ask("SHOW application_name").scalar_one() == "hermes-poll urgent"


# -- D1, D2: it is locked, it is full


@pytest.fixture
def file(folder: Path, clock: Sleepless) -> Iterator[Database]:
    with sqlite_files(folder) as files:
        yield files.open(clock)


def test_D2_a_full_disk_makes_nothing_and_harms_nothing(file: Database) -> None:
    path = str(file.url.database)
    full = True

    @event.listens_for(file.engine, "begin")
    def no_page_more(connection: Any) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one() if full else 1_000_000
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def much(unit: UnitOfWork) -> None:
        unit.runs.enqueue(NewRun("k", RunKind.function, "f", {"text": "x" * 50_000}))

    with pytest.raises(StoreUnavailable, match="full"):
        file.commit(much)
    with pytest.raises(StoreUnavailable, match="full"), file.write() as unit:
        much(unit)
    results = _together(file, much)
    assert [type(result) for result in results] == [StoreUnavailable] * len(results)
    assert keys(file) == []  # it can be read
    full = False
    file.commit(much)
    assert keys(file) == ["k"]
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_D2_one_whose_statement_fails_takes_nothing_of_those_with_it_that_share_its_transaction(file: Database) -> None:
    chance = iter(range(100))

    def change(unit: UnitOfWork) -> bool:
        number = next(chance)
        made = enqueue(unit, f"k{number}")[1]
        if number % 3 == 0:
            unit.connection.exec_driver_sql("SELECT * FROM what_is_not_there")
        return made

    results = _together(file, change)
    failed = [result for result in results if result is not True]
    assert failed
    assert len(failed) < len(results)
    assert {type(result) for result in failed} == {StoreUnavailable}
    assert len(keys(file)) == len(results) - len(failed)


def _together(database: Database, change: Callable[[UnitOfWork], Any]) -> list[Any]:
    """Committed by several threads at once, so that they share a transaction."""
    results: list[Any] = []

    def commit() -> None:
        try:
            results.append(database.commit(change))
        except BaseException as exc:  # noqa: BLE001 - looked at by the test
            results.append(exc)

    threads = [threading.Thread(target=commit) for _ in range(8)]
    with database.write():
        for thread in threads:
            thread.start()
        assert database._group is not None
        while len(database._group._queue) < len(threads) - 1:
            threading.Event().wait(0.005)
    for thread in threads:
        thread.join(30)
    return results


# -- D6, D8: what was read is not true any more, or cannot be read


def test_D6_selecting_a_run_entitles_nobody_to_it(databases: Databases) -> None:
    """Between the look and the update another has taken it: the update says so, by its row count."""
    clock = FakeClock()
    one, two = databases.open(clock), databases.open(clock)
    one.commit(enqueue)
    taken: list[int] = []

    def lease(database: Database, owner: str) -> int:
        with database.write() as unit:
            return len(unit.leases.lease(owner, timedelta(seconds=30), ["f"], 5))

    barrier = threading.Barrier(2)

    def race(database: Database, owner: str) -> None:
        barrier.wait(20)
        taken.append(lease(database, owner))

    threads = [threading.Thread(target=race, args=(db, name)) for db, name in ((one, "a"), (two, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(taken) == [0, 1]


def test_D8_a_page_that_breaks_while_it_runs_stops_all_writing(file: Database) -> None:
    for number in range(200):
        file.commit(lambda unit, number=number: enqueue(unit, f"k{number}"))
    path = Path(str(file.url.database))
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = plain.execute("PRAGMA page_size").fetchone()[0]
    file.engine.dispose()
    whole = path.read_bytes()
    path.write_bytes(whole[:size] + b"\xff" * (len(whole) - size))
    with pytest.raises(StoreDamaged, match="is damaged"):
        keys(file)
    with pytest.raises(StoreDamaged, match=r"restore a backup.*board adopt"):
        file.commit(enqueue)
    file.engine.dispose()
    path.write_bytes(whole)  # it may look whole again to some statements: a person says when it is
    with pytest.raises(StoreDamaged), file.write(urgent=True):
        pytest.fail("a lease could be taken")
    again = Database(str(file.url), SystemClock())
    assert again.commit(enqueue)[1]
    again.close()


def test_D8_on_postgresql_a_page_that_breaks_stops_all_writing() -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        with postgres_databases(server) as databases:
            database = databases.open(SystemClock())
            for number in range(200):
                database.commit(lambda unit, number=number: enqueue(unit, f"k{number}"))
            name = str(database.url.database)
            place = server.execute("SELECT pg_relation_filepath('runs')", name)[0][0]
            server.stop()
            with (server.data / place).open("r+b") as damaged:
                damaged.seek(4096)
                damaged.write(b"\xff" * 64)
            server.start()
            with pytest.raises(StoreDamaged, match=f"{name} is damaged"):
                keys(database)
            with pytest.raises(StoreDamaged, match="restore a backup"):
                database.commit(enqueue)
            with suppress(StoreDamaged):
                database.close()
    finally:
        server.close()
