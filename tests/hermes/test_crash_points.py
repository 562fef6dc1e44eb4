from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.crash_points import CrashPoint, reach

BODY = "from hermes.crash_points import *\nfor _ in range(3): reach(CrashPoint.after_intent)\nprint('alive')"


def run(points: str, log: Path) -> subprocess.CompletedProcess[str]:
    environment = {"HERMES_CRASH_POINTS": points, "HERMES_CRASH_LOG": str(log)}
    return subprocess.run([sys.executable, "-c", BODY], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("points", "hits"), [("A8", 1), ("A10,A8:3", 3)])
def test_the_process_dies_at_the_hit_that_was_asked_for(tmp_path: Path, points: str, hits: int) -> None:
    done = run(points, tmp_path / "log")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    assert (tmp_path / "log").read_text() == "A8\n" * hits


def test_points_that_are_not_armed_do_nothing(tmp_path: Path) -> None:
    done = run("A9,A8:4", tmp_path / "log")
    assert (done.returncode, done.stdout) == (0, "alive\n")
    reach(CrashPoint.after_intent)


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "A99" in run("A99", tmp_path / "log").stderr
