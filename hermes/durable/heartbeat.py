"""Renews every lease of this process, in one urgent transaction, from a thread that does nothing else."""

from __future__ import annotations

from datetime import timedelta

from hermes.clock import Clock
from hermes.durable.held import HeldLeases
from hermes.ports.runs import RunsDatabase


class Heartbeat:
    def __init__(self, database: RunsDatabase, clock: Clock, held: HeldLeases, owner: str, length: timedelta) -> None:
        self._database = database
        self._clock = clock
        self._held = held
        self._owner = owner
        self._length = length

    def tick(self) -> None:
        """Renew; what the database does not give back is lost. Raises StoreUnavailable when it cannot be asked."""
        leases = self._held.all()
        if not leases:
            return
        before = self._clock.boot_seconds()
        with self._database.write(urgent=True) as unit:
            kept = unit.leases.renew(self._owner, [held.lease for held in leases], self._length)
        for held in leases:
            if held.lease in kept:
                held.renewed(before)
            else:
                held.lost = True
