"""Real processes that really die or are suspended: the engine alone, on SQLite, with leases of two seconds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import store.tables  # noqa: F401 - registers them
from hermes.clock import SystemClock
from hermes.model.run import NewRun, Run, RunKind, RunState
from store.database import Database

WORKER = Path(__file__).with_name("process_worker.py")
LEASE, TICK = 2.0, 0.25
SLACK = 8.0
"""For a busy machine that starts processes slowly."""


class Site:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "hermes.db"
        self.effects = folder / "effects"
        self.database = Database(f"sqlite:///{self.path}", SystemClock())
        SQLModel.metadata.create_all(self.database.engine)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, crash: str = "", *, lease: float = LEASE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.path), str(self.effects)],
            env={**os.environ, "HERMES_CRASH_POINTS": crash, "LEASE": str(lease)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        return process

    def enqueue(self, key: str, *, steps: int = 3, pause: float = 0) -> str:
        with self.database.write() as unit:
            run = NewRun(key, RunKind.function, "process.job", {"steps": steps, "pause": pause})
            return unit.runs.enqueue(run)[0]

    def get(self, run_id: str) -> Run:
        with self.database.read() as unit:
            run = unit.runs.get(run_id)
        assert run is not None
        return run

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, "it did not happen"
            threading.Event().wait(0.02)

    def seen(self) -> list[list[str]]:
        return [line.split() for line in self.effects.read_text().splitlines()] if self.effects.exists() else []

    def what_happened(self, run_id: str) -> list[str]:
        with self.database.read() as unit:
            return [entry.what for entry in unit.runs.timeline(run_id)]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.database.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "sent_twice"),
    [
        ("A7:2", False),
        ("A8:2", False),
        pytest.param("A9:2", True, marks=pytest.mark.always),
        ("A10:2", False),
        ("A11:2", True),
        ("A12", False),
    ],
)
def test_kill_9_at_each_point_and_another_process_continues(site: Site, point: str, sent_twice: bool) -> None:
    run_id = site.enqueue("k", pause=0.5)
    victim = site.start(crash=point)
    other = None
    assert victim.wait(30) == -signal.SIGKILL
    killed = time.monotonic()
    other = site.start()
    site.until(lambda: site.get(run_id).state.final)
    assert time.monotonic() - killed < LEASE + TICK + SLACK

    run = site.get(run_id)
    asleep = point == "A12"  # it held no lease when it died
    assert (run.state, run.result, run.take_overs) == (RunState.succeeded, 3, 0 if asleep else 1)
    calls = Counter((place, key) for _, place, key, _ in site.seen())
    assert set(calls) == {(str(place), f"{run_id}:{seq}") for place, seq in ((0, 1), (1, 3), (2, 4))}
    assert max(calls.values()) == (2 if sent_twice else 1)
    other.send_signal(signal.SIGTERM)
    assert other.wait(30) == 0


@pytest.mark.crash
@pytest.mark.always
def test_nobody_waits_for_the_lease_of_a_process_that_has_surely_ended(site: Site) -> None:
    run_id = site.enqueue("k")
    victim = site.start(crash="A9:2", lease=3600)
    assert victim.wait(30) == -signal.SIGKILL
    survivor = site.start(lease=3600)
    site.until(lambda: site.get(run_id).state.final)
    assert site.get(run_id).take_overs == 1
    folder = site.path.parent / "hermes.db.workers"
    site.until(lambda: len(list(folder.iterdir())) == 1)
    survivor.send_signal(signal.SIGTERM)
    assert survivor.wait(30) == 0
    assert list(folder.iterdir()) == [], "nothing is left of either"


@pytest.mark.crash
@pytest.mark.parametrize("point", [pytest.param("A8:2:stop", marks=pytest.mark.always), "A9:2:stop"])
def test_a_process_suspended_for_longer_than_its_lease_changes_nothing_afterwards(site: Site, point: str) -> None:
    run_id = site.enqueue("k")
    zombie = site.start(crash=point)
    site.until(lambda: "T" in Path(f"/proc/{zombie.pid}/stat").read_text().rsplit(")", 1)[1].split()[0])
    site.start()
    site.until(lambda: site.get(run_id).state.final)
    before = site.seen()
    zombie.send_signal(signal.SIGCONT)
    if point.startswith("A9"):  # it had an answer in hand
        site.until(lambda: "receipt" in site.what_happened(run_id))
    other = site.enqueue("and it goes on to work")
    site.until(lambda: site.get(other).state.final)
    zombie.send_signal(signal.SIGTERM)
    assert zombie.wait(30) == 0

    run = site.get(run_id)
    assert (run.state, run.result, run.take_overs) == (RunState.succeeded, 3, 1)
    assert [line for line in site.seen() if line[0] == "k"] == before
    calls = Counter(place for _, place, _, _ in before)
    assert calls == {"0": 1, "1": 1 if point.startswith("A8") else 2, "2": 1}


@pytest.mark.crash
def test_five_times_kill_9_leaves_nothing_undone_and_nothing_done_under_two_keys(site: Site) -> None:
    chance = random.Random(5)
    ids = [site.enqueue(f"k{number}", steps=3, pause=0.2 if number % 3 == 0 else 0) for number in range(60)]
    workers = [site.start(), site.start()]
    for _ in range(5):
        threading.Event().wait(chance.uniform(0.2, 1.5))
        victim = workers.pop(0)
        victim.kill()
        workers.append(site.start())
    site.until(lambda: all(site.get(run_id).state.final for run_id in ids), 120)

    assert {site.get(run_id).state for run_id in ids} == {RunState.succeeded}
    keys = Counter((key, place) for key, place in {(run, (place, sent)) for run, place, sent, _ in site.seen()})
    assert len(keys) == 180  # three effects a run, each under one key
    with site.database.read() as unit:
        assert unit.connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
