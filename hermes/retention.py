"""Removing what is old: how old is old, batch after batch with rests between, and once a night by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import structlog

from hermes.clock import Clock
from hermes.ports.retention import Batch, Cursor, Cutoffs, OldRun, Removed, Retention, RetentionDatabase

log = structlog.get_logger("hermes.retention")

ROWS = 500
"""That go in one transaction, during which nobody else writes to SQLite."""
LONGEST_REST = 1.0
"""Seconds."""
TURN = timedelta(minutes=10)
"""A process that has not gone on for so long is dead, or stands still: another takes its turn."""


@dataclass(frozen=True, slots=True)
class Ages:
    """For how long what is kept."""

    timeline: timedelta
    runs: timedelta
    failed: timedelta
    keys: timedelta | None
    """None: for ever."""
    occurrences: timedelta

    def cutoffs(self, now: datetime) -> Cutoffs:
        return Cutoffs(
            timelines=now - self.timeline,
            runs=now - self.runs,
            stopped=now - self.failed,
            keys=None if self.keys is None else now - self.keys,
            occurrences=now - self.occurrences,
        )


class Stopped(Exception):
    """Another process has the turn, or this one is to stop: what is left goes next time."""


class Pruning:
    """One going over of everything. What it has removed stays removed wherever it stops; the next finds the rest."""

    def __init__(
        self,
        store: RetentionDatabase,
        ages: Ages,
        owner: str,
        *,
        look: bool = False,
        rest: Callable[[], None] = lambda: None,
        rows: int = ROWS,
    ) -> None:
        """`look`: counts what would go. `rest` is called after each transaction, and may raise Stopped."""
        self._store = store
        self._ages = ages
        self._owner = owner
        self._look = look
        self._rest = rest
        self._rows = rows
        self.removed = Removed()

    def work(self) -> bool:
        """False when it came to no end: another process is at it, or it was stopped."""
        with self._store.read() as unit:
            cutoffs = self._ages.cutoffs(unit.now)
        try:
            self._runs(cutoffs)
            self._keys(cutoffs)
            self._board_log(cutoffs)
            self._rest_of_it(lambda kept: kept.forget_occurrences(cutoffs.occurrences, self._rows, look=self._look))
            self._rest_of_it(lambda kept: kept.forget_events(self._rows, look=self._look))
        except Stopped:
            return False
        finally:
            if not self._look:
                with self._store.write(durable=False) as unit:
                    unit.retention.end_turn(self._owner)
        return True

    def _runs(self, cutoffs: Cutoffs) -> None:
        going: set[str] = set()
        self._pages(
            lambda kept, after: kept.old_runs(cutoffs, after),
            lambda kept, page: kept.forget_runs(page, cutoffs, self._rows, look=self._look, going=going),
        )
        self._pages(
            lambda kept, after: kept.old_timelines(cutoffs, after),
            lambda kept, page: kept.forget_timelines(page, cutoffs, self._rows, look=self._look, going=going),
        )

    def _pages(
        self,
        find: Callable[[Retention, Cursor | None], Sequence[OldRun]],
        forget: Callable[[Retention, Sequence[OldRun]], Batch],
    ) -> None:
        after: Cursor | None = None
        while True:
            with self._store.read() as unit:
                page = find(unit.retention, after)
            if not page:
                return
            after = page[-1].cursor
            while page:
                with self._transaction() as kept:
                    batch = forget(kept, page)
                page = batch.left
                self._went(batch.removed)

    def _keys(self, cutoffs: Cutoffs) -> None:
        after: Cursor | None = None
        while cutoffs.keys is not None:
            with self._transaction() as kept:
                removed, after = kept.forget_keys(cutoffs.keys, cutoffs, after, self._rows, look=self._look)
            self._went(removed)
            if after is None:
                return

    def _board_log(self, cutoffs: Cutoffs) -> None:
        after = -1
        while after:
            with self._transaction() as kept:
                removed, after = kept.forget_board_log(cutoffs, max(after, 0), self._rows, look=self._look)
            self._went(removed)

    def _rest_of_it(self, forget: Callable[[Retention], Removed]) -> None:
        while True:
            with self._transaction() as kept:
                removed = forget(kept)
            self._went(removed)
            if self._look or removed.rows.total() < self._rows:
                return

    @contextmanager
    def _transaction(self) -> Iterator[Retention]:
        if self._look:
            with self._store.read() as unit:
                yield unit.retention
            return
        # A power cut may undo the newest of them, whole: they are made again.
        with self._store.write(durable=False) as unit:
            if not unit.retention.take_turn(self._owner, unit.now + TURN):
                raise Stopped
            yield unit.retention

    def _went(self, removed: Removed) -> None:
        self.removed.add(removed)
        self._rest()


class Nightly:
    """Once a night and installation, whichever process comes first. A night that was missed is made up for."""

    def __init__(
        self,
        store: RetentionDatabase,
        ages: Ages,
        at: time,
        zone: ZoneInfo,
        owner: str,
        clock: Clock,
    ) -> None:
        self._store = store
        self._ages = ages
        self._at = at
        self._zone = zone
        self._owner = owner
        self._clock = clock
        self._stop = threading.Event()
        self._done: datetime | None = None

    def tick(self) -> None:
        with self._store.read() as unit:
            started_at = unit.now
            due_at = last_due(started_at, self._at, self._zone)
            if due_at == self._done or unit.retention.done(due_at):
                self._done = due_at
                return
        pruning = Pruning(self._store, self._ages, self._owner, rest=self._rest())
        if not pruning.work():
            return
        rows = dict(sorted((+pruning.removed.rows).items()))
        told = ", ".join(f"{name} {count}" for name, count in rows.items()) or "nothing was old enough"
        with self._store.write(durable=False) as unit:
            unit.retention.note_done(due_at, started_at, self._owner, told)
        self._done = due_at
        log.info("what is old was removed", rows=rows, text=pruning.removed.text)

    def _rest(self) -> Callable[[], None]:
        """As long as the work before it took, so that whoever waits to write comes in between."""
        since = self._clock.boot_seconds()

        def rest() -> None:
            nonlocal since
            if self._stop.wait(min(self._clock.boot_seconds() - since, LONGEST_REST)):
                raise Stopped
            since = self._clock.boot_seconds()

        return rest

    def stop(self) -> None:
        """After the transaction that is under way."""
        self._stop.set()


def last_due(now: datetime, at: time, zone: ZoneInfo) -> datetime:
    """The newest instant not after `now` at which it is `at` there."""
    day = now.astimezone(zone).date()
    today = datetime.combine(day, at, zone).astimezone(UTC)
    return today if today <= now else datetime.combine(day - timedelta(days=1), at, zone).astimezone(UTC)
