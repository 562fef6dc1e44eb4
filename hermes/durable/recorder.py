"""Writes what a run records, for as long as its lease holds. An outage of the database is waited out: it spends no
attempt, because an attempt begins with its intent on the disk.

A result is written together with what the run writes next: nothing that depends on it leaves the process before that,
because a function between two awaits only computes. See ENGINE.md, "Transactions of a delivery".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from hermes.clock import Clock
from hermes.crash_points import CrashPoint, reach
from hermes.durable.held import HeldLease
from hermes.durable.late import LateWriter
from hermes.durable.settings import EngineSettings
from hermes.errors import LeaseLost, StoreUnavailable
from hermes.model.run import Lease
from hermes.ports.runs import RunsDatabase, RunsUnit

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Unwritten:
    """The result of an attempt, not recorded yet."""

    seq: int
    attempt: int
    name: str
    result_json: str
    source: str

    def record(self, unit: RunsUnit, lease: Lease) -> None:
        unit.steps.record_result(lease, self.seq, self.attempt, self.result_json, source=self.source)


class Recorder:
    def __init__(
        self,
        database: RunsDatabase,
        clock: Clock,
        held: HeldLease,
        settings: EngineSettings,
        stopping: Callable[[], bool],
        late: LateWriter | None = None,
    ) -> None:
        """Without a `late` writer nothing waits: each result is a transaction of its own."""
        self._database = database
        self._clock = clock
        self._held = held
        self._settings = settings
        self._stopping = stopping
        self._late = late
        self._unwritten: Unwritten | None = None
        self._mutex = threading.Lock()
        """Held by whoever writes for this run: its driver or the late writer."""

    @property
    def lease(self) -> Lease:
        return self._held.lease

    def write(self, change: Callable[[RunsUnit], T]) -> T:
        """`change` is conditional on the lease, bears being tried again, and commits as a whole, with the result that
        was not written yet before it. When it is refused, that result is kept for the next write."""
        with self._mutex:
            unwritten = self._unwritten
            if unwritten is None:
                return self._write(change)

            def both(unit: RunsUnit) -> T:
                unwritten.record(unit, self.lease)
                return change(unit)

            try:
                made = self._write(both)
            except LeaseLost:
                self._give_up(unwritten)
                raise
            self._unwritten = None
            reach(CrashPoint.result_recorded)
            return made

    def result(self, seq: int, attempt: int, name: str, result_json: str, source: str) -> None:
        """What an attempt brought; when the lease is gone, a receipt."""
        unwritten = Unwritten(seq, attempt, name, result_json, source)
        with self._mutex:
            self._unwritten = unwritten
        if self._late is None:
            self.write_down()
        else:
            self._late.watch(self, unwritten)

    def write_down(self) -> None:
        """What is unwritten, now."""
        if self._unwritten is not None:
            self.write(lambda unit: None)

    def write_late(self, unwritten: Unwritten) -> bool:
        """For the late writer: one try, if nobody else is at it. False when it must be tried again."""
        if self._unwritten is not unwritten:
            return True
        if not self._mutex.acquire(blocking=False):
            return False
        try:
            if self._unwritten is not unwritten:
                return True
            if self._held.lost:
                raise LeaseLost(self.lease)
            self._database.commit(lambda unit: unwritten.record(unit, self.lease))
        except StoreUnavailable:
            return False
        except LeaseLost:
            self._held.lost = True
            self._give_up(unwritten)
            return True
        else:
            self._unwritten = None
        finally:
            self._mutex.release()
        reach(CrashPoint.result_recorded)
        return True

    def _give_up(self, unwritten: Unwritten) -> None:
        self._unwritten = None
        self.receive(self.lease.run_id, unwritten.seq, unwritten.attempt, unwritten.name, unwritten.result_json)

    def _write(self, change: Callable[[RunsUnit], T]) -> T:
        while True:
            if self._held.lost:
                raise LeaseLost(self.lease)
            try:
                return self._database.commit(change)
            except StoreUnavailable as exc:
                self._wait_or_leave(exc)

    def read(self, look: Callable[[RunsUnit], T]) -> T:
        self.write_down()
        while True:
            try:
                with self._database.read() as unit:
                    return look(unit)
            except StoreUnavailable as exc:
                self._wait_or_leave(exc)

    def receive(self, run_id: str, seq: int, attempt: int, name: str, result_json: str) -> None:
        """A result that may not advance the run any more; kept all the same, however long the database is away."""
        while True:
            try:
                with self._database.write() as unit:
                    return unit.steps.add_receipt(run_id, seq, attempt, name, result_json)
            except StoreUnavailable:
                if self._stopping():
                    return None
                self._clock.sleep(self._settings.store_retry.total_seconds())

    def make_sure(self) -> None:
        """Right before an effect: what it may depend on is on the disk, and the lease holds for long enough, or is
        renewed now, or LeaseLost."""
        self.write_down()
        while not self._held.good_for_effects(self._clock.boot_seconds()):
            before = self._clock.boot_seconds()
            try:
                with self._database.write(urgent=True) as unit:
                    kept = unit.leases.renew(self.lease.owner, [self.lease], self._length)
            except StoreUnavailable as exc:
                if self._held.expired(self._clock.boot_seconds()):
                    raise LeaseLost(self.lease) from exc
                self._wait_or_leave(exc)
                continue
            if self.lease not in kept:
                self._held.lost = True
                raise LeaseLost(self.lease)
            self._held.renewed(before)

    @property
    def _length(self) -> timedelta:
        return self._settings.lease

    def _wait_or_leave(self, exc: StoreUnavailable) -> None:
        if self._stopping():
            raise LeaseLost(self.lease) from exc
        self._clock.sleep(self._settings.store_retry.total_seconds())
