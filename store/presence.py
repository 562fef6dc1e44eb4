"""Which workers of a SQLite installation are gone: each holds a lock on a file of its own for as long as its process
lives, and the kernel drops it at the end, whatever the end was. A process that is only suspended keeps it.

So on one machine a death is proven at once, and nobody waits for the lease of the dead. What cannot be proven (another
system's processes, a file that somebody removed) is left to the lease.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path


class Presence:
    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(database.name + ".workers")

    def announce(self, owner: str) -> Callable[[], None]:
        """This process is `owner` until it ends, or what is returned is called."""
        self._folder.mkdir(exist_ok=True)
        path = self._folder / owner
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)

        def leave() -> None:
            path.unlink(missing_ok=True)
            os.close(descriptor)

        return leave

    def gone(self, owners: Collection[str]) -> set[str]:
        """Those of them whose process has surely ended."""
        return {owner for owner in owners if self._is_gone(self._folder / owner)}

    def forget(self, owners: Collection[str]) -> None:
        """Nothing is held by them any more."""
        for owner in owners:
            (self._folder / owner).unlink(missing_ok=True)

    def announced(self) -> set[str]:
        with suppress(FileNotFoundError):
            return {entry.name for entry in os.scandir(self._folder)}
        return set()

    @staticmethod
    def _is_gone(path: Path) -> bool:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False  # it never said that it was there
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)
