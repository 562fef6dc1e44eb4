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

from hermes.errors import StoreUnavailable


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
        self.pid = os.getpid()
        self._opened: list[int] = []
        self.gate, self.write = self._open(gate), self._open(write)

    def _open(self, path: Path) -> int:
        """Raises StoreUnavailable: the folder is away, or this process has as many files open as it may."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StoreUnavailable(f"the database cannot be used for now: {path}: {exc.strerror}") from exc
        self._opened.append(descriptor)
        return descriptor

    def __del__(self) -> None:
        for descriptor in self._opened:
            with suppress(OSError):
                os.close(descriptor)
