"""What pages were a short while ago: for queries that lag behind the board."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sources.board.board import Board
from sources.board.store import Changes, Node

KEPT = timedelta(minutes=5)
"""A query can lag no longer than this."""


@dataclass(frozen=True, slots=True)
class _Past:
    at: datetime
    page_id: str
    before: Node | None
    """None: it was made then."""


class History:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._past: deque[_Past] = deque()
        board.store.on_commit.append(self._note)

    def _note(self, changes: Changes) -> None:
        now = self._board.now()
        for node_id, (before, after) in changes.items():
            if any(node is not None and node.kind == "page" for node in (before, after)):
                self._past.append(_Past(now, node_id, before))
        while self._past and now - self._past[0].at > KEPT:
            self._past.popleft()

    def since(self, at: datetime) -> Mapping[str, Node | None]:
        """What has changed after `at`, as it was then."""
        found: dict[str, Node | None] = {}
        for past in self._past:
            if past.at > at:
                found.setdefault(past.page_id, past.before)
        return found
