"""A worker is gone when the lock of its process is free, and only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from store.presence import Presence

HOLDER = """
import sys
from pathlib import Path
from store.presence import Presence
Presence(Path(sys.argv[1])).announce("it")
print("there", flush=True)
sys.stdin.read()
"""


def test_it_is_there_until_its_process_ends(tmp_path: Path) -> None:
    database = tmp_path / "hermes.db"
    presence = Presence(database)
    assert presence.announced() == set()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        assert presence.announced() == {"it"}
        assert presence.gone({"it"}) == set()
        holder.kill()
        holder.wait()
    assert presence.gone({"it"}) == {"it"}
    presence.forget({"it"})
    assert presence.announced() == set()


def test_who_leaves_in_good_order_is_not_gone_but_forgotten(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "hermes.db")
    leave = presence.announce("me")
    assert presence.gone({"me"}) == set()
    leave()
    assert presence.announced() == set()


def test_one_that_never_said_that_it_was_there_is_not_gone(tmp_path: Path) -> None:
    assert Presence(tmp_path / "hermes.db").gone({"somebody", "../hermes.db"}) == set()
