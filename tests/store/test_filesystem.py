"""Where a SQLite file may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

import store.filesystem
from hermes.clock import SystemClock
from hermes.errors import StoreError
from store.database import Database

LINE = "36 35 98:0 / {place} rw,noatime master:1 - {kind} server:/share rw\n"


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table of mounts, to be written by the test."""
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(store.filesystem, "MOUNTS", table)
    return table


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs"])
def test_D10_a_file_on_a_network_file_system_is_refused_at_the_start(mount: Path, tmp_path: Path, kind: str) -> None:
    data = tmp_path / "a folder" / "data"
    shown = str(tmp_path / "a folder").replace(" ", "\\040")
    mount.write_text(LINE.format(place="/", kind="ext4") + LINE.format(place=shown, kind=kind))
    with pytest.raises(StoreError, match=rf"network file system \({kind}\).*PostgreSQL"):
        Database(f"sqlite:///{data}/hermes.db", SystemClock())
    assert not list(data.glob("hermes.db*"))


def test_a_local_disk_below_a_network_one_is_not(mount: Path, tmp_path: Path) -> None:
    mount.write_text(LINE.format(place="/", kind="nfs4") + LINE.format(place=tmp_path, kind="ext4"))
    Database(f"sqlite:///{tmp_path}/hermes.db", SystemClock()).close()
