"""Counts every call the board was sent and tells what became of it: which fault it met, and whether and when its write
was made, whatever was answered. So that tests can say "exactly three calls a card" and "that write landed twice".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

MAX_CALLS = 100_000
"""Single calls are listed up to here; counting goes on."""


@dataclass(slots=True)
class Entry:
    """One call. Times are seconds since 1970 by the board's clock."""

    number: int
    at: float
    route: str
    bot: str
    objects: list[str]
    wrote: Any = None
    """The property values that it asks for."""
    status: int | None = None
    """What was answered; None: nothing was, the connection was cut or the client has gone."""
    fault: str | None = None
    """What it met, by name."""
    early: bool = False
    """It came before a Retry-After was over that its integration had been told."""
    outcome: Literal["applied", "refused", "never", "pending"] | None = None
    """Of a write: made; refused by the board itself; never handled; still to land. None: it reads."""
    applied_at: float | None = None


class Ledger:
    def __init__(self) -> None:
        self._number = 0
        self.reset()

    def reset(self) -> None:
        self._routes: Counter[str] = Counter()
        self._pages: dict[str, Counter[str]] = {}
        self._tokens: dict[str, Counter[str]] = {}
        self._statuses: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._early = 0
        self._calls: list[Entry] = []

    def count(
        self, route: str, user_id: str, object_ids: list[str], at: datetime, *, writes: bool, wrote: Any = None
    ) -> Entry:
        """Called when a request arrives, before any fault. The entry is filled in later."""
        self._routes[route] += 1
        self._tokens.setdefault(user_id, Counter())[route] += 1
        for object_id in object_ids:
            self._pages.setdefault(object_id, Counter())[route] += 1
        self._number += 1
        entry = Entry(self._number, at.timestamp(), route, user_id, object_ids, wrote)
        entry.outcome = "never" if writes else None
        if len(self._calls) < MAX_CALLS:
            self._calls.append(entry)
        return entry

    def met(self, entry: Entry, fault: str, *, early: bool = False) -> None:
        entry.fault = fault
        entry.early = early
        self._faults[fault] += 1
        self._early += early

    def applied(self, entry: Entry, at: datetime) -> None:
        if entry.outcome is not None:
            entry.outcome, entry.applied_at = "applied", at.timestamp()

    def answered(self, entry: Entry, status: int | None) -> None:
        """None: the connection was dropped."""
        entry.status = status
        self._statuses[str(status)] += 1

    def shown(self) -> Mapping[str, Any]:
        return {
            "total": self._routes.total(),
            "routes": dict(self._routes),
            "pages": {page: dict(counts) for page, counts in self._pages.items()},
            "bots": {bot: dict(counts) for bot, counts in self._tokens.items()},
            "statuses": dict(self._statuses),
            "faults": dict(self._faults),
            "early": self._early,
            "calls": [asdict(entry) for entry in self._calls],
        }
