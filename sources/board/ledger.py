"""Counts every call the board was sent, so that tests can say "exactly three calls a card"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


class Ledger:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._routes: Counter[str] = Counter()
        self._pages: dict[str, Counter[str]] = {}
        self._tokens: dict[str, Counter[str]] = {}
        self._statuses: Counter[str] = Counter()
        self._calls: list[dict[str, Any]] = []

    def count(self, route: str, user_id: str, object_ids: list[str], at: float, wrote: Any = None) -> dict[str, Any]:
        """Called when a request arrives, before any fault. Returns the entry, whose status is filled in later. `at`:
        seconds since 1970. `wrote`: the property values that it asks for."""
        self._routes[route] += 1
        self._tokens.setdefault(user_id, Counter())[route] += 1
        for object_id in object_ids:
            self._pages.setdefault(object_id, Counter())[route] += 1
        entry: dict[str, Any] = {
            "at": at,
            "route": route,
            "bot": user_id,
            "objects": object_ids,
            "status": None,
            "wrote": wrote,
        }
        if len(self._calls) < MAX_CALLS:
            self._calls.append(entry)
        return entry

    def answered(self, entry: dict[str, Any], status: int | None) -> None:
        """None: the connection was dropped."""
        entry["status"] = status
        self._statuses[str(status)] += 1

    def shown(self) -> Mapping[str, Any]:
        return {
            "total": self._routes.total(),
            "routes": dict(self._routes),
            "pages": {page: dict(counts) for page, counts in self._pages.items()},
            "bots": {bot: dict(counts) for bot, counts in self._tokens.items()},
            "statuses": dict(self._statuses),
            "calls": self._calls,
        }


MAX_CALLS = 100_000
"""Single calls are listed up to here; counting goes on."""
