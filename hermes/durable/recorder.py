"""Writes what a run records, for as long as its lease holds. An outage of the database is waited out: it spends no
attempt, because an attempt begins with its intent on the disk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from hermes.clock import Clock
from hermes.durable.held import HeldLease
from hermes.durable.settings import EngineSettings
from hermes.errors import LeaseLost, StoreUnavailable
from hermes.model.run import Lease
from hermes.ports.runs import RunsDatabase, RunsUnit

T = TypeVar("T")


class Recorder:
    def __init__(
        self,
        database: RunsDatabase,
        clock: Clock,
        held: HeldLease,
        settings: EngineSettings,
        stopping: Callable[[], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._held = held
        self._settings = settings
        self._stopping = stopping

    @property
    def lease(self) -> Lease:
        return self._held.lease

    def write(self, change: Callable[[RunsUnit], T]) -> T:
        """`change` is conditional on the lease, bears being tried again, and commits as a whole."""
        while True:
            if self._held.lost:
                raise LeaseLost(self.lease)
            try:
                return self._database.commit(change)
            except StoreUnavailable as exc:
                self._wait_or_leave(exc)

    def read(self, look: Callable[[RunsUnit], T]) -> T:
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
        """Right before an effect: the lease holds for long enough, or is renewed now, or LeaseLost."""
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
