"""The rate limits of the board: budgets of a minute, for an integration and for the workspace, and every Retry-After
that was told and is not over. Who calls in spite of one is refused again, and the ledger says that the call was early.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from sources.board.errors import NotionError

WINDOW = timedelta(seconds=60)
WORKSPACE = ""
"""Where the workspace's own count stands among those of the integrations."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """Calls a minute; None is as many as one likes."""

    bot: int | None = None
    workspace: int | None = None


class Throttle:
    def __init__(self) -> None:
        self.budgets = Budgets()
        self._until: dict[str, datetime] = {}
        self._calls: dict[str, deque[datetime]] = {}

    def clear(self) -> None:
        self.budgets = Budgets()
        self._until.clear()
        self._calls.clear()

    def told(self, user_id: str, seconds: float, now: datetime, *, everybody: bool) -> None:
        """A Retry-After was answered."""
        key = WORKSPACE if everybody else user_id
        self._until[key] = max(self._until.get(key, now), now + timedelta(seconds=seconds))

    def is_early(self, user_id: str, now: datetime) -> bool:
        return any(now < self._until.get(key, now) for key in (user_id, WORKSPACE))

    def refusal(self, user_id: str, now: datetime) -> NotionError | None:
        """For a call that arrives now; otherwise the call is counted."""
        for key in (user_id, WORKSPACE):
            left = (self._until.get(key, now) - now).total_seconds()
            if left > 0:
                return limited(left, everybody=key == WORKSPACE)
        for key, budget in ((user_id, self.budgets.bot), (WORKSPACE, self.budgets.workspace)):
            if budget is None:
                continue
            calls = self._calls.setdefault(key, deque())
            while calls and now - calls[0] >= WINDOW:
                calls.popleft()
            if len(calls) >= budget:
                left = (calls[0] + WINDOW - now).total_seconds()
                self.told(user_id, left, now, everybody=key == WORKSPACE)
                return limited(left, everybody=key == WORKSPACE)
        for key in (user_id, WORKSPACE):
            if key in self._calls:
                self._calls[key].append(now)
        return None


def limited(seconds: float, *, everybody: bool) -> NotionError:
    reason = "public_api_space_request_rate_limit" if everybody else "public_api_request_rate_limit"
    return NotionError(
        429,
        "rate_limited",
        "You have been rate limited. Please try again in a few minutes.",
        additional_data={"rate_limit_reason": reason},
        headers={"Retry-After": str(max(1, math.ceil(seconds)))},
    )
