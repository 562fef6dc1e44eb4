"""One credential, several processes: pauses hold for all, turns are spaced, urgent calls go first."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from hermes.errors import Retryable, StoreError
from hermes.limits import DatabaseLimiter, LimitExceeded, credential_key
from hermes.limits.lanes import Pacing
from hermes.limits.limiter import PAUSE_AGE_SECONDS
from hermes.ports.limits import LimitUnit
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from store.database import Database


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(databases: Databases, clock: FakeClock) -> Database:
    return databases.open(clock)


class _Counting:
    """Counts the transactions that go through it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = 0
        self.reads = 0

    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[LimitUnit]:
        self.writes += 1
        return self._database.write(urgent=urgent, durable=durable)

    def read(self) -> AbstractContextManager[LimitUnit]:
        self.reads += 1
        return self._database.read()


class _Away:
    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[LimitUnit]:
        raise StoreError("database is away")

    def read(self) -> AbstractContextManager[LimitUnit]:
        raise StoreError("database is away")


def test_pause_of_one_process_holds_for_every_other_the_whole_time(database: Database, clock: FakeClock) -> None:
    ours, theirs = (DatabaseLimiter("key", database, clock) for _ in range(2))
    ours.pause(20, "Notion limits our requests")
    started = clock.boot_seconds()
    theirs.acquire(urgent=True)
    assert clock.boot_seconds() - started >= 20
    assert theirs.paused_until() is None


def test_pause_longer_than_a_caller_should_wait_is_said_at_once(database: Database, clock: FakeClock) -> None:
    ours, theirs = (DatabaseLimiter("key", database, clock) for _ in range(2))
    ours.pause(460, "Notion limits our requests")
    started = clock.boot_seconds()
    with pytest.raises(Retryable) as raised:
        theirs.acquire()
    assert raised.value.retry_after == pytest.approx(460)
    assert clock.boot_seconds() == started
    assert theirs.paused_until() == clock.now() + timedelta(seconds=460)
    assert theirs.pause_reason == "Notion limits our requests"


def test_shorter_pause_does_not_end_a_longer_one(database: Database, clock: FakeClock) -> None:
    ours, theirs = (DatabaseLimiter("key", database, clock) for _ in range(2))
    ours.pause(460, "long")
    theirs.pause(1, "short")
    ours.pause(1, "short")
    clock.advance(timedelta(seconds=2))
    for limiter in (ours, theirs, DatabaseLimiter("key", database, clock)):
        with pytest.raises(LimitExceeded, match="long"):
            limiter.acquire()


def test_pause_of_another_credential_stops_nobody(database: Database, clock: FakeClock) -> None:
    DatabaseLimiter("one", database, clock).pause(460, "limited")
    started = clock.boot_seconds()
    DatabaseLimiter("two", database, clock).acquire()
    assert clock.boot_seconds() == started


def test_pause_made_elsewhere_is_seen_within_a_second(database: Database, clock: FakeClock) -> None:
    ours, theirs = (DatabaseLimiter("key", database, clock) for _ in range(2))
    theirs.acquire()
    ours.pause(460, "limited")
    clock.advance(timedelta(seconds=PAUSE_AGE_SECONDS))
    with pytest.raises(LimitExceeded):
        theirs.acquire()


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(hours=1)])
def test_step_of_the_wall_clock_does_not_move_a_pause(database: Database, clock: FakeClock, step: timedelta) -> None:
    ours, theirs = (DatabaseLimiter("key", database, clock) for _ in range(2))
    ours.pause(100, "limited")
    with pytest.raises(LimitExceeded):
        theirs.acquire()
    clock.step_wall(step)
    clock.advance(timedelta(seconds=60))
    for limiter in (ours, theirs):
        with pytest.raises(LimitExceeded) as raised:
            limiter.acquire()
        assert raised.value.retry_after == pytest.approx(40)
    clock.advance(timedelta(seconds=41))
    ours.acquire()
    theirs.acquire()


def test_no_minute_sees_more_calls_than_the_budget(database: Database, clock: FakeClock) -> None:
    limiters = [DatabaseLimiter("key", database, clock, 60, longest_wait_seconds=600) for _ in range(3)]
    calls = []
    for number in range(200):
        limiters[number % 3].acquire(urgent=number % 5 == 0)
        calls.append(clock.boot_seconds())
    for start in calls:
        assert sum(start <= at < start + 60 for at in calls) <= 60


def test_budget_is_used_rather_than_wasted(database: Database, clock: FakeClock) -> None:
    limiter = DatabaseLimiter("key", database, clock, 180)
    started = clock.boot_seconds()
    for _ in range(264):
        limiter.acquire()
    assert clock.boot_seconds() - started == pytest.approx(120, rel=0.1)


def test_urgent_call_does_not_wait_behind_ordinary_ones(database: Database, clock: FakeClock) -> None:
    with database.write() as unit:
        unit.limits.hold("key")
        unit.limits.take("key", next_free_at=unit.now + timedelta(seconds=25))
    limiter = DatabaseLimiter("key", database, clock, 60)
    started = clock.boot_seconds()
    limiter.acquire(urgent=True)
    assert clock.boot_seconds() == started
    limiter.acquire()
    assert clock.boot_seconds() - started > 20


def test_turn_further_away_than_a_caller_should_wait_is_said_and_not_taken(
    database: Database, clock: FakeClock
) -> None:
    with database.write() as unit:
        unit.limits.hold("key")
        unit.limits.take("key", next_free_at=unit.now + timedelta(seconds=90))
    limiter = DatabaseLimiter("key", database, clock, 60)
    with pytest.raises(LimitExceeded) as raised:
        limiter.acquire()
    assert raised.value.retry_after is not None
    assert 80 < raised.value.retry_after <= 90
    with database.read() as unit:
        assert unit.limits.state("key").next_free_at == clock.now() + timedelta(seconds=90)


def test_calls_in_a_row_cost_few_statements(database: Database, clock: FakeClock) -> None:
    counting = _Counting(database)
    limiter = DatabaseLimiter("key", counting, clock, 600)
    for _ in range(100):
        limiter.acquire()
    assert counting.writes <= 100 / 4
    counting.reads = 0
    unlimited = DatabaseLimiter("other", counting, clock)
    for _ in range(100):
        unlimited.acquire()
    assert counting.reads == 1


def test_instants_taken_ahead_are_not_hoarded(database: Database, clock: FakeClock) -> None:
    limiter = DatabaseLimiter("key", database, clock, 600)
    for _ in range(50):
        limiter.acquire()
    clock.advance(timedelta(minutes=10))
    rested = clock.boot_seconds()
    at_once = 0
    while clock.boot_seconds() == rested:
        limiter.acquire()
        at_once += clock.boot_seconds() == rested
    assert at_once == Pacing.of(600).ordinary.burst


def test_without_its_row_nobody_calls(clock: FakeClock) -> None:
    limiter = DatabaseLimiter("key", _Away(), clock)
    with pytest.raises(Retryable, match="database is away"):
        limiter.acquire()


def test_pause_holds_in_this_process_even_while_the_database_is_away(clock: FakeClock) -> None:
    limiter = DatabaseLimiter("key", _Away(), clock)
    limiter.pause(460, "limited")
    with pytest.raises(Retryable):
        limiter.acquire()


def test_token_is_not_in_the_database(database: Database, clock: FakeClock, tmp_path: Path) -> None:
    key = credential_key("ntn_very_secret")
    DatabaseLimiter(key, database, clock).pause(5, "limited")
    assert len(key) == 32
    assert all(b"ntn_very_secret" not in file.read_bytes() for file in tmp_path.iterdir())


def test_ordinary_caller_that_waits_for_the_database_holds_up_no_urgent_one(
    database: Database, clock: FakeClock
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(_Counting):
        def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[LimitUnit]:
            if not urgent:
                entered.set()
                leave.wait(10)
            return super().write(urgent=urgent, durable=durable)

    limiter = DatabaseLimiter("key", Slow(database), clock, 60)
    ordinary = threading.Thread(target=limiter.acquire)
    ordinary.start()
    assert entered.wait(10)
    limiter.acquire(urgent=True)
    assert ordinary.is_alive()
    leave.set()
    ordinary.join()


def test_pacing_goes_on_when_the_wall_clock_is_set_back(database: Database, clock: FakeClock) -> None:
    limiter = DatabaseLimiter("key", database, clock, 60)
    for _ in range(10):
        limiter.acquire()
    clock.step_wall(timedelta(hours=-1))
    started = clock.boot_seconds()
    for _ in range(20):
        limiter.acquire()
    assert clock.boot_seconds() - started < 60


def test_instants_are_spaced_from_when_they_were_taken(database: Database, clock: FakeClock) -> None:
    class Queued(_Counting):
        """Waits ten seconds for its turn to write."""

        def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[LimitUnit]:
            clock.advance(timedelta(seconds=10))
            return super().write(urgent=urgent, durable=durable)

    limiter = DatabaseLimiter("key", Queued(database), clock, 60, longest_wait_seconds=600)
    calls = []
    for _ in range(60):
        limiter.acquire()
        calls.append(clock.boot_seconds())
    for start in calls:
        assert sum(start <= at < start + 60 for at in calls) <= 60
