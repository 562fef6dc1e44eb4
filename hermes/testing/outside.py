"""An outside that counts what really happened to it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Outside:
    """The oracle: what commands did, counted where they did it and not by Hermes."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.calls: list[tuple[str, Any]] = []

    def happened(self, what: str, about: Any = None) -> int:
        """Record one call; returns how often it has happened, this time included."""
        with self._mutex:
            self.calls.append((what, about))
            return sum(1 for name, _ in self.calls if name == what)

    def count(self, what: str) -> int:
        with self._mutex:
            return Counter(name for name, _ in self.calls)[what]

    def about(self, what: str) -> list[Any]:
        with self._mutex:
            return [detail for name, detail in self.calls if name == what]
