"""D2: the disk or the quota is full at any transaction of a run: nothing is sent meanwhile, and it goes on after."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

WORK = Path(__file__).with_name("full_disk_work.py")


def problem(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout[-2000:] + done.stderr[-4000:]


def test_D2_a_quota_that_is_used_up_at_any_transaction_delays_the_run_and_no_more(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(WORK), str(folder), "quota"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, problem(done)
    met = re.search(r"(\d+) transactions met", done.stdout)
    assert met is not None
    assert int(met[1]) >= 8


def test_D2_a_full_disk_at_any_transaction_delays_the_run_and_no_more(tmp_path: Path) -> None:
    """A small file system of its own, where this user may make one. The WAL alone takes 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=24m hermes {disk}"
    if subprocess.run([*alone, mount], capture_output=True).returncode != 0:
        pytest.skip("NO SMALL FILE SYSTEM CAN BE MADE HERE (unshare, tmpfs): the quota alone is tried")
    script = f"{mount} && exec {sys.executable} {WORK} {disk} disk"
    done = subprocess.run([*alone, script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, problem(done)
    met = re.search(r"(\d+) transactions met", done.stdout)
    assert met is not None
    assert int(met[1]) >= 8
