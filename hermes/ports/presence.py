"""What proves that a worker's process has ended, where anything does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol


class Presence(Protocol):
    """What proves that a worker's process has ended, where anything does."""

    def announce(self, owner: str) -> Callable[[], None]:
        """This process is `owner` until it ends, or what is returned is called."""
        ...

    def announced(self) -> set[str]: ...

    def gone(self, owners: Collection[str]) -> set[str]:
        """Those of them whose process has surely ended."""
        ...

    def forget(self, owners: Collection[str]) -> None:
        """Nothing is held by them any more."""
        ...
