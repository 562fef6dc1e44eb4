"""A worker with its threads: quick wake-ups, heartbeats, draining, and modules of users."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

from hermes.clock import SystemClock
from hermes.durable import command, delay, function
from hermes.durable.function import Function
from hermes.durable.heartbeat import Heartbeat
from hermes.durable.held import HeldLease, HeldLeases
from hermes.durable.registry import REGISTRY, load_functions
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.errors import ConfigError, StoreUnavailable
from hermes.model.run import Lease, NewRun, Run, RunKind, RunState
from hermes.testing.clock import FakeClock
from hermes.testing.engine import EngineHarness
from store.database import Database

SETTINGS = EngineSettings(
    slots=4, lease=timedelta(seconds=1.5), tick=timedelta(seconds=0.2), drain=timedelta(seconds=5)
)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Database]:
    """With the clock of the machine."""
    database = Database(f"sqlite:///{tmp_path / 'real.db'}", SystemClock())
    SQLModel.metadata.create_all(database.engine)
    yield database
    database.close()


@pytest.fixture
def start(real: Database) -> Iterator[Callable[..., Worker]]:
    workers = []

    def start(**changes: Any) -> Worker:
        worker = Worker(real, SystemClock(), replace(SETTINGS, **changes))
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop()


def enqueue(database: Database, what: Function[Any, Any], key: str, **args: Any) -> str:
    with database.write() as unit:
        return unit.runs.enqueue(NewRun(key, RunKind.function, what.name, args))[0]


def get(database: Database, run_id: str) -> Run:
    with database.read() as unit:
        run = unit.runs.get(run_id)
    assert run is not None
    return run


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        threading.Event().wait(0.01)


def test_many_runs_in_few_slots(real: Database, start: Callable[..., Worker]) -> None:
    @command
    def add(number: int) -> int:
        return number + 1

    @function
    async def job(number: int) -> int:
        return await add(await add(number))

    start()
    ids = [enqueue(real, job, f"k{number}", number=number) for number in range(40)]
    until(lambda: all(get(real, run_id).state.final for run_id in ids))
    assert [get(real, run_id).result for run_id in ids] == [number + 2 for number in range(40)]


def test_what_is_enqueued_here_starts_without_waiting_for_a_tick(real: Database, start: Callable[..., Worker]) -> None:
    @function
    async def job() -> str:
        return "done"

    start(tick=timedelta(seconds=600))
    run_id = enqueue(real, job, "k")
    until(lambda: get(real, run_id).state.final)


def test_no_more_runs_at_once_than_slots(real: Database, start: Callable[..., Worker]) -> None:
    running, most, mutex, release = [0], [0], threading.Lock(), threading.Event()

    @command
    def act() -> None:
        with mutex:
            running[0] += 1
            most[0] = max(most[0], running[0])
        release.wait(20)
        with mutex:
            running[0] -= 1

    @function
    async def job() -> None:
        await act()

    start(slots=3)
    ids = [enqueue(real, job, f"k{number}") for number in range(9)]
    until(lambda: running[0] == 3)
    release.set()
    until(lambda: all(get(real, run_id).state.final for run_id in ids))
    assert most[0] == 3


def test_W1_W10_a_command_that_outlives_the_lease_and_blocks_the_loop_keeps_its_run(
    real: Database, start: Callable[..., Worker]
) -> None:
    calls = []

    @command
    async def blocks_the_loop() -> str:
        calls.append(1)
        time.sleep(SETTINGS.lease.total_seconds() * 2)
        return "done"

    @function
    async def job() -> str:
        return await blocks_the_loop()

    start()
    start()  # another worker, which would take it over
    run_id = enqueue(real, job, "k")
    until(lambda: get(real, run_id).state.final)
    run = get(real, run_id)
    assert (run.result, run.take_overs, len(calls)) == ("done", 0, 1)


def test_W6_draining_finishes_what_runs_and_takes_nothing_new(real: Database) -> None:
    begun, release = threading.Event(), threading.Event()

    @command
    def act() -> str:
        begun.set()
        release.wait(20)
        return "done"

    @function
    async def job() -> str:
        return await act() + await act()

    worker = Worker(real, SystemClock(), replace(SETTINGS, drain=timedelta(seconds=20)))
    worker.start()
    run_id = enqueue(real, job, "k")
    assert begun.wait(20)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    until(worker._draining.is_set)
    late = enqueue(real, job, "late")
    release.set()
    stopping.join(20)
    assert get(real, run_id).result == "donedone"
    assert get(real, late).state is RunState.ready
    assert get(real, late).fence == 0


def test_W6_what_does_not_finish_in_time_is_handed_back_and_no_crash_counted(real: Database) -> None:
    begun, release, calls = threading.Event(), threading.Event(), []

    @command
    def act() -> str:
        calls.append(1)
        begun.set()
        release.wait(20)
        return f"done by call {len(calls)}"

    @function
    async def job() -> str:
        return await act()

    worker = Worker(real, SystemClock(), replace(SETTINGS, drain=timedelta(seconds=0.1)))
    worker.start()
    run_id = enqueue(real, job, "k")
    assert begun.wait(20)
    worker.stop()

    run = get(real, run_id)
    assert (run.state, run.owner, run.crashes, run.take_overs, run.deliveries) == (RunState.ready, None, 0, 0, 0)
    release.set()

    def received() -> bool:
        with real.read() as unit:
            return "receipt" in [entry.what for entry in unit.runs.timeline(run_id)]

    until(received)
    other = Worker(real, SystemClock(), SETTINGS)
    assert other.run_due() == 1
    other.close()
    assert get(real, run_id).result == "done by call 1"


def test_a_stopped_worker_leaves_no_threads(real: Database) -> None:
    @command
    async def act() -> None: ...

    @function
    async def job() -> None:
        await act()

    before = threading.active_count()
    worker = Worker(real, SystemClock(), SETTINGS)
    worker.start()
    run_id = enqueue(real, job, "k")
    until(lambda: get(real, run_id).state.final)
    worker.stop()
    until(lambda: threading.active_count() <= before)


def test_a_worker_outlives_an_outage_of_the_database(
    real: Database, start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    @function
    async def job() -> str:
        return "done"

    out, refused, write = [True], [0], real.write

    def outage(**how: bool) -> Any:
        if out[0]:
            refused[0] += 1
            raise StoreUnavailable("unreachable")
        return write(**how)

    run_id = enqueue(real, job, "k")
    monkeypatch.setattr(real, "write", outage)
    start()
    until(lambda: refused[0] >= 2)
    out[0] = False
    until(lambda: get(real, run_id).state.final)


def test_the_heartbeat_flags_what_the_database_does_not_give_back(harness: EngineHarness) -> None:
    clock, length = harness.clock, harness.settings.lease

    @function
    async def job() -> None: ...

    for number in range(2):
        harness.enqueue(job, new={"key": f"k{number}"})
    held = HeldLeases()
    kept, gone = (lease for _, lease in harness.worker.lease(2))
    held.add(kept)
    held.add(gone)
    with harness.database.write() as unit:
        unit.leases.hand_back(gone.lease)
    clock.advance(length / 2)
    Heartbeat(harness.database, clock, held, harness.worker.owner, length).tick()

    assert (kept.lost, gone.lost) == (False, True)
    assert harness.get(kept.lease.run_id).lease_until == clock.now() + length
    clock.advance(length / 2)
    assert kept.good_for_effects(clock.boot_seconds())


def test_no_new_effect_in_the_last_third_of_a_lease() -> None:
    clock = FakeClock()
    lease = Lease("r", "w", 1, clock.now())
    held = HeldLease(lease, clock.boot_seconds(), timedelta(seconds=90))
    clock.advance(timedelta(seconds=59))
    assert held.good_for_effects(clock.boot_seconds())
    clock.advance(timedelta(seconds=1))
    assert not held.good_for_effects(clock.boot_seconds())
    assert not held.expired(clock.boot_seconds())
    clock.step_wall(-timedelta(days=1))  # local time is not asked
    clock.advance(timedelta(seconds=30))
    assert held.expired(clock.boot_seconds())


def test_modules_of_users_are_found_in_the_configuration_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_users_module.py").write_text(
        "from hermes.durable import function\n@function\nasync def hello() -> str:\n    return 'hi'\n"
    )
    (tmp_path / "a_broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    load_functions(["a_users_module"], tmp_path)
    assert REGISTRY.find("a_users_module.hello") is not None
    for name, why in (("a_broken_module", "ZeroDivisionError"), ("no_such_module", "ModuleNotFoundError")):
        with pytest.raises(ConfigError, match=f"{name}.*{why}"):
            load_functions([name], tmp_path)


def test_a_sleeping_run_leaves_its_slot_to_others(real: Database, start: Callable[..., Worker]) -> None:
    @function
    async def sleeper() -> None:
        await delay(timedelta(hours=1))

    @function
    async def job() -> str:
        return "done"

    start(slots=1)
    sleepers = [enqueue(real, sleeper, f"s{number}") for number in range(5)]
    run_id = enqueue(real, job, "k")
    until(lambda: get(real, run_id).state.final)
    until(lambda: all(get(real, sleeper_id).state is RunState.waiting for sleeper_id in sleepers))
