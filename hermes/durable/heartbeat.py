"""Renews every lease of this process, in one urgent transaction, from a thread that does nothing else.

Where rows are locked one by one (PostgreSQL) it waits for none of them while it holds others: a driver that has two
runs under its hands (a child that ends, and who awaits it) would wait for it, and it for the driver. What is in use at
this moment is renewed right after, each in a transaction of its own.
"""

from __future__ import annotations

from datetime import timedelta

from hermes.clock import Clock
from hermes.durable.held import HeldLease, HeldLeases
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
            kept = unit.leases.renew(self._owner, [held.lease for held in leases], self._length, waits=False)
        for held in leases:
            if held.lease in kept:
                held.renewed(before)
            else:
                self._renew_alone(held)

    def _renew_alone(self, held: HeldLease) -> None:
        before = self._clock.boot_seconds()
        with self._database.write(urgent=True) as unit:
            kept = unit.leases.renew(self._owner, [held.lease], self._length)
        if kept:
            held.renewed(before)
        else:
            held.lost = True
