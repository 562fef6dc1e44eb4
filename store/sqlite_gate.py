"""One writer at a time on a SQLite file, for all processes of an installation, with a fast lane for heartbeats.

SQLite's busy handler polls and starves: beside greedy writers a heartbeat has waited for 6-12 s. Here ordinary writers
queue for the gate and only its holder goes for the write lock, so an urgent writer competes with one other at most.
Both locks are advisory file locks: the kernel drops them when a process dies.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class SqliteGate:
    def __init__(self, database: Path) -> None:
        self._gate_path = database.with_name(database.name + ".gate")
        self._write_path = database.with_name(database.name + ".write")
        self._files = threading.local()

    @contextmanager
    def hold(self, *, urgent: bool) -> Iterator[None]:
        gate, write = self._descriptors()
        if not urgent:
            fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(write, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(write, fcntl.LOCK_UN)
        finally:
            if not urgent:
                fcntl.flock(gate, fcntl.LOCK_UN)

    def _descriptors(self) -> tuple[int, int]:
        """One open file description for each thread: flock excludes descriptions, not processes."""
        pair: _Pair | None = getattr(self._files, "pair", None)
        if pair is None or pair.pid != os.getpid():
            pair = _Pair(self._gate_path, self._write_path)
            self._files.pair = pair
        return pair.gate, pair.write


class _Pair:
    """Closes with its thread; never shared with a forked child."""

    def __init__(self, gate: Path, write: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self.pid = os.getpid()
        self.gate = os.open(gate, flags, 0o600)
        self.write = os.open(write, flags, 0o600)

    def __del__(self) -> None:
        for descriptor in (self.gate, self.write):
            with suppress(OSError):
                os.close(descriptor)
