"""Two transactions at the same moment on PostgreSQL, one of them held up between its look and its write: a wait and
its event, a run that goes to sleep and the child it sleeps for. Neither may miss the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import store.events
import store.waits
from hermes.durable import Event, command, function, start, wait_for_event, when_any
from hermes.durable.late import LateWriter
from hermes.model.event import Fired, NewEvent
from hermes.model.run import RunState
from hermes.testing.clock import FakeClock
from hermes.testing.databases import PostgresServer, postgres_databases
from hermes.testing.engine import EngineHarness
from store.database import Database
from store.endings import EndingStatements

NEWS = Event("RIVAL_NEWS")
ANY_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


class Rivals:
    """One goes on in a thread until it is held up; the other then does all it can."""

    def __init__(self, server: PostgresServer, database: Database, harness: EngineHarness) -> None:
        self.server = server
        self.database = database
        self.harness = harness
        self._held_up = threading.Event()
        self._go_on = threading.Event()
        self._first: threading.Thread | None = None
        self.blocked = False
        """The second had to wait for the first."""

    def hold_up(self) -> None:
        """Where the first one stops. The second passes."""
        if threading.current_thread() is self._first and not self._go_on.is_set():
            self._held_up.set()
            assert self._go_on.wait(30)

    def race(self, first: Callable[[], Any], second: Callable[[], Any]) -> None:
        self._first = threading.Thread(target=first, daemon=True)
        self._first.start()
        assert self._held_up.wait(30), "the first one never came to the point"
        other = threading.Thread(target=second, daemon=True)
        other.start()
        for _ in range(6000):
            self.blocked = bool(self.server.execute(ANY_WAITING)[0][0])
            if self.blocked or not other.is_alive():
                break
            other.join(0.005)
        self._go_on.set()
        for thread in (self._first, other):
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def rivals(postgres_server: PostgresServer) -> Iterator[Rivals]:
    clock = FakeClock()
    with postgres_databases(postgres_server) as databases:
        database = databases.open(clock)
        harness = EngineHarness(database, clock)
        yield Rivals(postgres_server, database, harness)
        harness.close()


def news(rivals: Rivals) -> Fired:
    return rivals.database.commit(lambda unit: unit.events.fire(NewEvent("RIVAL_NEWS", "42"), max_kept=10))


@function
async def waiter() -> str:
    await wait_for_event(NEWS, "42", timeout=timedelta(hours=1))
    return "came"


def test_an_event_that_is_fired_between_the_look_for_kept_ones_and_the_wait(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = store.waits.oldest_kept

    def look(*about: Any) -> Any:
        found = looked(*about)
        rivals.hold_up()
        return found

    monkeypatch.setattr(store.waits, "oldest_kept", look)
    run_id = rivals.harness.enqueue(waiter)
    rivals.race(rivals.harness.worker.run_due, lambda: news(rivals))
    rivals.harness.worker.run_due()
    assert rivals.harness.get(run_id).result == "came"


def test_a_wait_that_opens_between_an_events_look_for_waits_and_its_being_kept(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = store.events.EventStatements._add

    def held_up(statements: store.events.EventStatements, new: NewEvent) -> Any:
        rivals.hold_up()
        return add(statements, new)

    monkeypatch.setattr(store.events.EventStatements, "_add", held_up)
    run_id = rivals.harness.enqueue(waiter)
    rivals.race(lambda: news(rivals), rivals.harness.worker.run_due)
    rivals.harness.worker.run_due()
    assert rivals.harness.get(run_id).result == "came"


def test_a_fire_and_a_run_that_closes_its_wait_never_wait_for_each_other(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has a result in its hand that waits for company, as it does under a worker with threads."""
    harness = rivals.harness
    monkeypatch.setattr(harness.worker, "_late", LateWriter())
    lock, over = store.waits.lock_pairs, threading.Event()

    def lock_pairs(*about: Any) -> None:
        if over.is_set():
            rivals.hold_up()
        lock(*about)

    @command
    def ask() -> str:
        over.set()
        return "asked"

    @function
    async def job() -> str:
        came, asked = wait_for_event(NEWS, "42", forever=True), ask()
        return await asked if await when_any(came, asked) is asked else "came"

    monkeypatch.setattr(store.waits, "lock_pairs", lock_pairs)
    run_id = harness.enqueue(job)
    rivals.race(harness.worker.run_due, lambda: news(rivals))
    assert not rivals.blocked
    assert harness.get(run_id).result == "came"


@command
def before_it() -> None: ...


@function
async def child() -> str:
    return "child"


@function
async def parent() -> str:
    started = start(child, "rival child")
    await before_it()
    return await started


@pytest.mark.parametrize("look", [1, 2], ids=["before it sleeps", "before it has committed"])
def test_a_child_that_ends_while_its_parent_goes_to_sleep(
    rivals: Rivals, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    looked, looks = EndingStatements._when_due, []

    def when_due(endings: EndingStatements, *about: Any) -> Any:
        found = looked(endings, *about)
        looks.append(found)
        if len(looks) == look:
            rivals.hold_up()
        return found

    monkeypatch.setattr(EndingStatements, "_when_due", when_due)
    harness, other = rivals.harness, rivals.harness.new_worker()
    run_id = harness.enqueue(parent)

    def drive_the_parent() -> None:
        [(leased, held)] = harness.worker.lease(1)
        assert leased.run.id == run_id
        harness.worker.drive(leased, held)

    rivals.race(drive_the_parent, lambda: other.drive(*other.lease(1)[0]))
    assert harness.get(run_id).state is RunState.waiting
    harness.worker.run_due()
    assert harness.get(run_id).result == "child"
