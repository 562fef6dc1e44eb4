"""Fifty seeds of the simulation, that a seed is one schedule, and that what is planted is still where it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from planted import BUGS, ROOT

from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases

HERE = Path(__file__).parent
SEEDS = 50
TOGETHER = 10
"""In one test, so that they are shared out."""


def simulate(*options: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """In a process of its own: a simulation takes the place of clocks and chance."""
    return subprocess.run(
        [sys.executable, str(HERE / "simulate.py"), *options],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("first", range(1, SEEDS + 1, TOGETHER))
def test_every_promise_holds_in_the_world_of_a_seed(first: int) -> None:
    done = simulate(f"--first={first}", f"--seeds={TOGETHER}", "--processes=1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_one_schedule_in_any_process() -> None:
    told = {simulate("--seed=5", "--hash", hash_seed=hash_seed).stdout for hash_seed in ("1", "2", "3")}
    assert len(told) == 1
    (digest,) = told
    assert len(digest.strip()) >= 32
    assert simulate("--seed=6", "--hash").stdout != digest


def test_intents_are_committed_with_synchronous_full(databases: Databases) -> None:
    """The twelfth planted bug: no schedule of a process that dies shows it, only power that fails."""
    if databases.kind != "sqlite":
        pytest.skip("a server's setting: doctor says so")
    database = databases.open(FakeClock())
    assert database.pragmas()["synchronous"] == "2", "FULL"
    with database.write() as unit:
        assert unit.connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    synchronous = database.commit(lambda unit: unit.connection.exec_driver_sql("PRAGMA synchronous").scalar_one())
    assert synchronous == 2


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_is_planted_still_fits_the_code(bug) -> None:
    for name, old, _ in bug.edits:
        assert (ROOT / name).read_text(encoding="utf-8").count(old) == 1, name
