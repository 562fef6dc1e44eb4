"""Runs whose database gives way, goes away or answers nothing: no effect without its intent, none twice, none lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, make_url

from hermes.durable import command, delay, function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.errors import StoreUnavailable
from hermes.model.run import NewRun, Run, RunKind, RunState
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases, PostgresServer, postgres_databases
from hermes.testing.engine import EngineHarness, Outside
from hermes.testing.proxy import COMMIT, Proxy, When
from store.database import Database

SETTINGS = EngineSettings()


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def job(outside: Outside) -> Any:
    @command
    def act(place: int) -> int:
        outside.happened("act", place)
        return place

    @function
    async def job() -> int:
        total = await act(1)
        await delay(timedelta(seconds=30))
        return total + await act(2)

    return job


class Site:
    """A worker behind the proxy, and an eye on the database that is not."""

    def __init__(self, server: PostgresServer, databases: Databases) -> None:
        self.clock = FakeClock()
        self.near = databases.open(self.clock)
        self.proxy = Proxy("127.0.0.1", server.port)
        url = make_url(databases.url()).set(port=self.proxy.port)
        self.far = Database(url.render_as_string(), self.clock, lease_clock=self.clock)
        self.harness = EngineHarness(self.far, self.clock, SETTINGS)

    def run(self, run_id: str) -> Run:
        with self.near.read() as unit:
            run = unit.runs.get(run_id)
        assert run is not None
        return run

    def drive(self, run_id: str) -> Run:
        """As a process's loops do: a tick that could not be made is made again."""
        for _ in range(40):
            try:
                self.harness.worker.run_due()
                if self.run(run_id).state.final:
                    break
                self.harness.pass_to_next_due()
            except StoreUnavailable:
                self.clock.advance(timedelta(seconds=1))
        return self.run(run_id)

    def close(self) -> None:
        self.harness.close()
        self.far.close()
        self.proxy.close()


@pytest.fixture
def site(postgres_server: PostgresServer) -> Iterator[Site]:
    with postgres_databases(postgres_server) as databases:
        site = Site(postgres_server, databases)
        yield site
        site.close()


@pytest.mark.parametrize("when", When)
def test_D3_whichever_commit_is_lost_every_effect_is_made_once(
    site: Site, job: Any, outside: Outside, when: When
) -> None:
    hit, reached = 0, True
    while reached:
        hit += 1
        outside.calls.clear()
        with site.near.write() as unit:
            run_id = unit.runs.enqueue(NewRun(f"k{hit}", RunKind.function, job.name, {}))[0]
        cut = site.proxy.cut_at(COMMIT, hit, when)
        run = site.drive(run_id)
        reached = cut.is_set()
        about = f"commit {hit}"
        assert (run.state, run.result) == (RunState.succeeded, 3), about
        assert outside.about("act") == [1, 2], about
        assert (run.take_overs, run.crashes, run.deliveries) == (0, 0, 0), about
    assert hit > 8  # leases, intents and results, both ways out


def test_D3_an_enqueue_that_was_not_answered_is_asked_for_again_under_its_key(site: Site, job: Any) -> None:
    new = NewRun("k", RunKind.function, job.name, {})
    site.proxy.cut_at(COMMIT, when=When.answered)
    with pytest.raises(StoreUnavailable), site.far.write() as unit:
        first = unit.runs.enqueue(new)[0]
    with site.far.write() as unit:
        assert unit.runs.enqueue(new) == (first, False)


def test_D3_a_lease_that_was_made_and_not_answered_is_given_back_uncounted(
    databases: Databases, job: Any, outside: Outside
) -> None:
    clock = FakeClock()
    database = databases.open(clock)
    worker = Worker(database, clock, SETTINGS)
    with database.write() as unit:
        run_id = unit.runs.enqueue(NewRun("k", RunKind.function, job.name, {}))[0]
    answers = _unanswered(database)
    with pytest.raises(StoreUnavailable):
        worker.lease(1)
    answers()
    with database.read() as unit:
        assert unit.runs.get(run_id).state is RunState.running  # type: ignore[union-attr] - made all the same
    assert worker.run_due() == 1  # well before that lease is over
    with database.read() as unit:
        run = unit.runs.get(run_id)
    assert run is not None
    assert (run.state, run.take_overs, run.crashes) == (RunState.waiting, 0, 0)
    assert outside.about("act") == [1]
    worker.close()


def _unanswered(database: Database) -> Callable[[], None]:
    """What is committed stands, and nobody is told."""
    real = database.commit

    def commit(change: Callable[[Any], Any]) -> Any:
        real(change)
        raise StoreUnavailable("no answer")

    database.commit = commit  # type: ignore[method-assign]
    return lambda: setattr(database, "commit", real)


def test_D3_a_run_whose_engine_failed_is_not_taken_for_an_unanswered_lease(databases: Databases) -> None:
    """Given back at once it would fail again at once, for ever, and never be counted."""
    clock = FakeClock()
    database = databases.open(clock)
    worker = Worker(database, clock, SETTINGS)

    @function
    async def broken() -> None: ...

    for key in ("k", "other"):
        with database.write() as unit:
            unit.runs.enqueue(NewRun(key, RunKind.function, broken.name, {}))
    ((leased, held),) = worker.lease(1)
    worker._registry = None  # type: ignore[assignment] - the engine itself is broken
    worker.drive(leased, held)
    worker._registry = Worker(database, clock, SETTINGS)._registry
    answers = _unanswered(database)
    with pytest.raises(StoreUnavailable):
        worker.lease(1)
    answers()
    worker.lease(5)
    with database.read() as unit:
        run = unit.runs.get(leased.run.id)
        assert run is not None
        assert (run.state, run.fence) == (RunState.running, 1)
    worker.close()


# -- D1: locked for long


def test_D1_while_the_database_is_locked_nothing_is_sent_and_no_attempt_spent(
    databases: Databases, job: Any, outside: Outside
) -> None:
    clock = Waiting()
    database = databases.open(clock)
    _impatient(database)
    worker = Worker(database, clock, SETTINGS)
    with database.write() as unit:
        run_id = unit.runs.enqueue(NewRun("k", RunKind.function, job.name, {}))[0]
    ((leased, held),) = worker.lease(1)
    with locked(databases.url()) as unlock:
        before: list[int] = []

        def look() -> None:
            before.append(outside.count("act"))
            if clock.waits == 8:
                unlock()

        clock.meanwhile = look
        worker.drive(leased, held)
    assert before
    assert set(before) == {0}
    assert outside.about("act") == [1]
    with database.read() as unit:
        (first, *_) = unit.runs.steps(run_id)
    assert first.attempts == 1
    worker.close()


class Waiting(FakeClock):
    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.waits += 1
        self.meanwhile()


def _impatient(database: Database) -> None:
    sqlite = database.url.get_backend_name() == "sqlite"

    @event.listens_for(database.engine, "begin")
    def waits_for_little(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA busy_timeout=20" if sqlite else "SET lock_timeout = '20ms'")

    database.engine.dispose()


@contextmanager
def locked(url: str) -> Iterator[Callable[[], None]]:
    """By another process that writes: all of it on SQLite, the table on PostgreSQL. Gives what ends that."""
    connection: Any
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(url)
        connection.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
    with closing(connection):
        yield connection.rollback


# -- D5: restarted while somebody recovers


def test_D5_a_rescue_that_dies_with_the_server_is_only_the_first_of_many(job: Any, outside: Outside) -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        with postgres_databases(server) as databases:
            clock = FakeClock()
            database = databases.open(clock)
            dead, live = Worker(database, clock, SETTINGS), Worker(database, clock, SETTINGS)
            with database.write() as unit:
                ids = [unit.runs.enqueue(NewRun(f"k{n}", RunKind.function, job.name, {}))[0] for n in range(5)]
            assert len(dead.lease(5)) == 5
            clock.advance(SETTINGS.lease + timedelta(seconds=1))

            def restarted_in_the_middle() -> None:
                with database.write() as unit:
                    assert len(unit.leases.rescue(poison_after=5)) == 5
                    server.stop(at_once=True)

            with pytest.raises(StoreUnavailable):
                restarted_in_the_middle()
            server.start()
            with database.read() as unit:
                assert {unit.runs.get(run_id).state for run_id in ids} == {RunState.running}  # type: ignore[union-attr]
            assert sorted(live.rescue()) == sorted(ids)
            live.run_due()
            assert outside.about("act") == [1] * 5
            with database.read() as unit:
                assert {unit.runs.get(run_id).crashes for run_id in ids} <= {0, 1}  # type: ignore[union-attr]
            dead.close()
            live.close()
    finally:
        server.close()
