"""A worker at work, whose connections are cut at one COMMIT after the other (failure catalogue, D3)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import make_url

from hermes.clock import SystemClock
from hermes.durable import command, delay, function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.effects import Effect, perform
from hermes.errors import StoreUnavailable
from hermes.model.run import NewRun, Run, RunKind, RunState
from hermes.testing.databases import Databases, PostgresServer, postgres_databases
from hermes.testing.engine import Outside
from hermes.testing.proxy import COMMIT, Proxy, When
from store.database import Database

SETTINGS = EngineSettings(
    slots=3,
    lease=timedelta(seconds=20),
    tick=timedelta(seconds=0.1),
    store_retry=timedelta(milliseconds=20),
)
RUNS, CUTS = 24, 30


@pytest.fixture
def databases(postgres_server: PostgresServer) -> Iterator[Databases]:
    with postgres_databases(postgres_server) as databases:
        yield databases


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def far(databases: Databases, proxy: Proxy) -> Iterator[Database]:
    url = make_url(databases.url()).set(port=proxy.port)
    database = Database(url.render_as_string(), SystemClock())
    yield database
    proxy.cut()
    database.close()


def until(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, what
        threading.Event().wait(0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_D3_a_worker_whose_commits_are_lost_one_after_the_other_makes_every_effect_once(
    databases: Databases, proxy: Proxy, far: Database, seed: int
) -> None:
    """With all its threads: results that wait for company, heartbeats, leases, sleeps, children, endings."""
    outside, chance = Outside(), random.Random(seed)

    @command
    def act(key: str, place: int) -> int:
        outside.happened("act", (key, place))
        return place

    @function
    async def job(key: str) -> int:
        total = await act(key, 1) + await act(key, 2)
        await delay(timedelta(milliseconds=50))
        return total + await perform(Effect.of(act, f"effect|{key}", key, 3)) + await act(key, 4)

    near = databases.open(SystemClock(), lease_clock=None)
    worker = Worker(far, SystemClock(), SETTINGS)
    worker.start()
    cut = proxy.cut_at(COMMIT, chance.randint(1, 6), chance.choice(list(When)))
    for number in range(RUNS):
        new = NewRun(f"k{number}", RunKind.function, job.name, {"key": f"k{number}"})
        while True:  # as every caller does: asked for again under its key
            try:
                with far.write() as unit:
                    unit.runs.enqueue(new)
                break
            except StoreUnavailable:
                continue

    def runs() -> list[Run]:
        with near.read() as unit:
            return unit.runs.list(limit=1000)

    cuts = 0

    def over() -> bool:
        nonlocal cut, cuts
        if cut.is_set() and cuts < CUTS:
            cuts += 1
            cut = proxy.cut_at(COMMIT, chance.randint(1, 6), chance.choice(list(When)))
        return len(runs()) == 2 * RUNS and all(run.state.final for run in runs())

    until("every run is over", over)
    worker.stop()
    assert cuts > 5
    assert Counter((run.kind, run.state, run.result) for run in runs()) == {
        (RunKind.function, RunState.succeeded, 10): RUNS,
        (RunKind.effect, RunState.succeeded, 3): RUNS,
    }
    assert {(run.crashes, run.take_overs, run.deliveries) for run in runs()} == {(0, 0, 0)}
    assert Counter(outside.about("act")) == Counter((f"k{n}", place) for n in range(RUNS) for place in (1, 2, 3, 4))
