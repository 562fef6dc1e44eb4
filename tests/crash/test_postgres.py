"""Several processes on one PostgreSQL server, which goes away when it is needed most."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.testing.checker import problems
from hermes.testing.databases import PostgresServer
from hermes.testing.trial import Trial, eventually

Make = Callable[..., Trial]


@pytest.mark.always
def test_a_scheduler_and_a_worker_as_commands_of_their_own(trial: Make, server: PostgresServer) -> None:
    here = trial("five_effects", claim={"max_concurrent": 2}, postgres=server)
    cards = here.add_cards(*(f"card {number}" for number in range(4)))
    command = [Path(sys.executable).with_name("hermes-poll"), "--config", here.config, "up", "--role"]
    started = []
    for role in ("scheduler", "worker"):
        with open(here.folder / "out" / f"{role}.log", "ab") as output:
            started.append(subprocess.Popen([*command, role], stdout=output, stderr=output, env=dict(os.environ)))
    try:
        here.wait_quiet(cards, 90)
        owners = {row["detail"] for row in here.rows("SELECT detail FROM timeline WHERE what = 'leased'")}
        names = {row["application_name"] for row in here.rows("SELECT application_name FROM pg_stat_activity")}
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        ended = [process.wait(45) for process in started]
    assert ended == [0, 0]
    assert problems(here, cards, effects=5) == []
    assert len({owner.split('"owner": ')[1].split(",")[0] for owner in owners}) == 1  # the worker, not the scheduler
    assert "hermes-poll" in names
    said = "".join((here.folder / "out" / f"{role}.log").read_text() for role in ("scheduler", "worker"))
    assert "roles          scheduler" in said
    assert "roles          worker" in said


@pytest.mark.always
def test_W9_D5_the_server_restarts_while_a_dead_workers_runs_are_recovered(trial: Make, server: PostgresServer) -> None:
    here = trial("five_effects", claim={"max_concurrent": 4}, postgres=server)
    cards = here.add_cards(*(f"card {number}" for number in range(6)))
    victim = here.up(["worker"], crash="A8:6")
    processes = [here.up(["scheduler"])]
    victim.wait(60)
    processes.append(here.up(["worker"]))
    eventually("somebody recovers", lambda: here.rows("SELECT 1 FROM timeline WHERE what = 'take-over'"), 60)
    server.stop(at_once=True)
    server.start()
    here.wait_quiet(cards, 90)
    for process in processes:
        process.send(signal.SIGTERM)
    assert [process.wait(45) for process in processes] == [0, 0]
    assert problems(here, cards, effects=5) == []
    assert server.execute("SELECT count(*) FROM runs WHERE state <> 'succeeded'", here.url.rsplit("/", 1)[1]) == [(0,)]
