"""One occurrence of a poll whose source is a board: ask once, keep the candidates. Claiming them is the desk's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from hermes.claim import Desk
from hermes.config import PollConfig
from hermes.crash_points import CrashPoint, reach
from hermes.errors import Fatal
from hermes.ports.board import TaskBoard
from hermes.ports.polls import PollLease
from hermes.ports.store import ClaimStore
from hermes.schedule.occurrence import OccurrenceOutcome


class BoardStopped(Fatal):
    """Nothing is claimed on this board until a person says what is true."""


class BoardPoll:
    """Implements `OccurrenceRunner`."""

    def __init__(self, store: ClaimStore, desk: Desk, board_of: Callable[[PollConfig], TaskBoard]) -> None:
        self._store = store
        self._desk = desk
        self._board_of = board_of

    def __call__(self, poll: PollConfig, due_at: datetime, lease: PollLease) -> OccurrenceOutcome:
        board = self._board_of(poll)
        with self._store.read() as uow:
            state, now = uow.claims.board(board.key), uow.now
            waiting = uow.claims.waiting(poll.id)
        fresh = state.answered_at is not None and now - state.answered_at < board.times.hint_age / 2
        if fresh and not lease.by_hand and not state.stopped_reason and not state.problem:
            return OccurrenceOutcome(matched=waiting, note=f"{waiting} waiting (another poll has just asked the board)")
        reach(CrashPoint.before_query)
        taken = self._desk.ask(board)
        reach(CrashPoint.after_query)
        matched = taken.matched.get(poll.id, 0)
        notes = []
        if taken.refused:
            shown = "; ".join(taken.refused[:3])
            notes.append(f"{len(taken.refused)} card(s) left alone: {shown}")
        if taken.incomplete:
            notes.append(taken.incomplete)
        with self._store.read() as uow:
            waiting, opened = uow.claims.waiting(poll.id), uow.claims.open_count(poll.id)
        notes.append(f"{waiting} waiting, {opened} claimed")
        error: Fatal | None = BoardStopped(taken.stopped) if taken.stopped else None
        if error is None and state.problem is not None:
            # A card met it since the last query. The query works, so it is tried again; but it is no idle board.
            error = Fatal(state.problem)
        return OccurrenceOutcome(checked=taken.checked, matched=matched, error=error, note="; ".join(notes))
