"""Fifty seeds of the simulation, that a seed is one schedule, and that what is planted is still where it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from planted import BUGS, ROOT
from simulation.world import run

from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases

HERE = Path(__file__).parent
SEEDS = 50
TOGETHER = 10
"""In one test, so that they are shared out."""


@pytest.mark.parametrize("first", range(1, SEEDS + 1, TOGETHER))
def test_every_promise_holds_in_the_world_of_a_seed(first: int) -> None:
    found = [run(seed) for seed in range(first, first + TOGETHER)]
    assert {outcome.seed: outcome.problems for outcome in found if outcome.problems} == {}, (
        "again: python tests/sim/simulate.py --seed N --trace"
    )


def test_a_seed_is_one_schedule_in_any_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, str(HERE / "simulate.py"), "--seed=5", "--hash"],
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert told == {f"{run(5).digest}\n"}
    assert run(6).digest not in told


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
