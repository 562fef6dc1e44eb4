"""The gate of SQLite writers: heartbeats first, nobody for ever, no corruption."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from hermes.clock import SystemClock
from hermes.errors import StoreUnavailable
from store.database import Database
from store.sqlite_gate import SqliteGate

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["store.database"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


def waiting(lock: Path) -> int:
    """How many wait for this file's lock, as the kernel has it (proc_locks(5))."""
    end = f":{lock.stat().st_ino} "
    return sum("->" in line and end in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who waits for a lock")
def test_a_heartbeat_goes_before_queued_writers(path: Path) -> None:
    """One writes, five more are queued, then the urgent one comes: it competes with the head of the queue alone. The
    kernel wakes who waits and lets them race, so a few may be lost, but never does it stand behind all five."""
    gate, order, passed = SqliteGate(path), list[str](), list[int]()

    def take(name: str, *, urgent: bool) -> None:
        with gate.hold(urgent=urgent):
            order.append(name)

    def until(lock: str, count: int) -> None:
        over = time.monotonic() + 30
        while waiting(path.with_name(path.name + lock)) != count:
            assert time.monotonic() < over, f"{count} should wait for {lock}"
            threading.Event().wait(0.001)

    for _ in range(20):
        order.clear()
        queued = [threading.Thread(target=take, args=("ordinary",), kwargs={"urgent": False}) for _ in range(5)]
        heartbeat = threading.Thread(target=take, args=("urgent",), kwargs={"urgent": True})
        with gate.hold(urgent=False):
            for thread in queued:
                thread.start()
            until(".gate", 5)
            heartbeat.start()
            until(".write", 1)
        for thread in (*queued, heartbeat):
            thread.join(30)
        passed.append(order.index("urgent"))
    assert sum(passed) / len(passed) < 2.5, passed


def test_ordinary_writers_all_get_their_turn(path: Path) -> None:
    gate, turns = SqliteGate(path), [0] * 6

    def writer(number: int) -> None:
        for _ in range(30):
            with gate.hold(urgent=number == 0):
                turns[number] += 1

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert turns == [30] * 6


def _hold_for_ever(path: str, holds: Event) -> None:
    with SqliteGate(Path(path)).hold(urgent=False):
        holds.set()
        signal.pause()


def test_a_killed_holder_frees_it(path: Path) -> None:
    holds = PROCESSES.Event()
    holder = PROCESSES.Process(target=_hold_for_ever, args=(str(path), holds))
    holder.start()
    assert holds.wait(30)
    entered = threading.Event()

    def enter() -> None:
        with SqliteGate(path).hold(urgent=False):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.1)
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    assert entered.wait(30)
    waiting.join(10)
    holder.join(10)


def test_an_exception_inside_frees_it(path: Path) -> None:
    gate = SqliteGate(path)
    with pytest.raises(ValueError, match="no"), gate.hold(urgent=False):
        raise ValueError("no")
    with gate.hold(urgent=False):
        pass


def _write_rows(url: str, process: int, rows: int) -> None:
    database = Database(url, SystemClock())
    for start in range(0, rows, 50):
        with database.write() as unit:
            unit.connection.exec_driver_sql(
                "INSERT INTO numbers VALUES (?, ?)", [(process, number) for number in range(start, start + 50)]
            )
    database.close()


def test_D10_X8_eight_processes_write_ten_thousand_rows_each_and_nothing_is_corrupt(path: Path) -> None:
    url = f"sqlite:///{path}"
    database = Database(url, SystemClock())
    with database.write() as unit:
        unit.connection.exec_driver_sql("CREATE TABLE numbers (process INT, number INT, UNIQUE (process, number))")
    database.close()
    processes = [PROCESSES.Process(target=_write_rows, args=(url, number, 10_000)) for number in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * 8
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*), count(DISTINCT process) FROM numbers").fetchone() == (80_000, 8)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_gate_that_cannot_be_opened_is_a_database_that_is_away_for_now(path: Path) -> None:
    """Without the folder, or without a file descriptor left: as any outage, it is waited out."""
    gate = SqliteGate(path.parent / "gone" / "hermes.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="No such file"), gate.hold(urgent=False):
            pytest.fail("held")
    (path.parent / "gone").mkdir()
    with gate.hold(urgent=False):
        pass
