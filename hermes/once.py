"""One round of an installation: polls run once, their cards are worked until nothing is due soon, then the end. For
timers of the system, in place of a process that stays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermes.app import App
from hermes.durable.registry import REGISTRY
from hermes.model.run import Run, RunState
from hermes.operations import NotFound, near_misses
from hermes.ports.polls import Poll, PollStatus
from hermes.ports.survey import WorkLeft
from hermes.process import ALL_ROLES, Process, Role

LOOK_SECONDS = 0.1
PATIENCE = timedelta(seconds=90)
"""For a poll that another process holds, and for cards that wait while nothing moves."""


@dataclass(frozen=True, slots=True)
class Round:
    polls: tuple[Poll, ...]
    """As they are after it."""
    skipped: tuple[str, ...]
    """Polls that another process held all the time."""
    ended: tuple[Run, ...]
    left: WorkLeft
    began_at: datetime

    @property
    def failed(self) -> bool:
        bad = (RunState.failed, RunState.parked)
        return (
            bool(self.skipped)
            or any(poll.failing_since is not None for poll in self.polls)
            or any(run.state in bad for run in self.ended)
        )


def run_once(app: App, names: Sequence[str], wait: timedelta, stop: threading.Event) -> Round:
    """`names`: those polls, whether due or not; none: all that are due within `wait`. `stop` ends it early, drained.
    Raises NotFound before anything is done."""
    missing = [name for name in names if name not in app.configuration.polls]
    if missing:
        raise NotFound(f"There is no poll {missing[0]!r}.{near_misses(missing[0], list(app.configuration.polls))}")
    process = Process(app, ALL_ROLES - {Role.web}, ticks=False)
    try:
        process.start()
        return _Round(app, process, wait, stop).work(names)
    finally:
        process.stop()


class _Round:
    def __init__(self, app: App, process: Process, wait: timedelta, stop: threading.Event) -> None:
        self.app = app
        self.process = process
        self.wait = wait
        self.stop = stop
        self.functions = REGISTRY.names()

    def work(self, names: Sequence[str]) -> Round:
        with self.app.store.read() as uow:
            began_at = uow.now
        chosen = self._ask(names)
        skipped = self._run_polls(chosen)
        left = self._work_cards()
        with self.app.store.read() as uow:
            polls = tuple(poll for poll in uow.polls.all() if poll.poll_id in chosen)
            ended = tuple(uow.survey.ended_since(began_at))
        return Round(polls, tuple(sorted(skipped)), ended, left, began_at)

    def _ask(self, names: Sequence[str]) -> frozenset[str]:
        """Asked for by hand: a timer is late for every poll, and that is no misfire."""
        with self.app.store.write() as uow:
            until = uow.now + self.wait
            due = [
                poll.poll_id
                for poll in uow.polls.all()
                if poll.status is PollStatus.active
                and (poll.asked_at is not None or (poll.next_start_at is not None and poll.next_start_at <= until))
            ]
            chosen = frozenset(names or due)
            for name in chosen:
                uow.polls.run_now(name)
        return chosen

    def _run_polls(self, chosen: frozenset[str]) -> frozenset[str]:
        scheduler = self.process.scheduler
        assert scheduler is not None  # noqa: S101 -- the process has every role
        over = self.app.clock.boot_seconds() + PATIENCE.total_seconds()
        open_polls = chosen
        while open_polls and not self.stop.is_set():
            scheduler.tick(open_polls)
            with self.app.store.read() as uow:
                rows = {poll.poll_id: poll for poll in uow.polls.all()}
            open_polls = frozenset(name for name in open_polls if name in rows and rows[name].asked_at is not None)
            if open_polls and self.app.clock.boot_seconds() > over and scheduler.wait_idle(0):
                break
            self.stop.wait(LOOK_SECONDS)
        return open_polls

    def _work_cards(self) -> WorkLeft:
        """Until nothing is due within `wait`. Cards that could be claimed and are not, while nothing else moves, are
        left to the next round."""
        boot_seconds = self.app.clock.boot_seconds
        seen, seen_at = None, boot_seconds()
        while True:
            left = self._left()
            if left.changed_at != seen:
                seen, seen_at = left.changed_at, boot_seconds()
            stuck = boot_seconds() - seen_at > max(self.wait, PATIENCE / 3).total_seconds()
            claimable = self._claimable(left)
            if self.stop.is_set() or not (left.busy or claimable) or (stuck and not left.running):
                return left
            self.stop.wait(LOOK_SECONDS)

    def _left(self) -> WorkLeft:
        with self.app.store.read() as uow:
            return uow.survey.work_left(self.app.identity.boot_id, self.functions, uow.now + self.wait)

    def _claimable(self, left: WorkLeft) -> bool:
        """Some poll may claim one more of its waiting cards."""
        for poll_id, poll in self.app.claiming_polls().items():
            if not left.candidates.get(poll_id) or not poll.policy.at_once or not poll.active:
                continue
            with self.app.store.read() as uow:
                board = uow.claims.board(poll.board)
                free = uow.places.free_places(poll_id) and uow.claims.open_count(poll_id) < poll.policy.max_open
            if free and not board.stopped_reason and not board.problem:
                return True
        return False
