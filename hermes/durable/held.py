"""The leases this process believes it holds, by the clock that a suspended machine cannot fool."""

from __future__ import annotations

import threading
from datetime import timedelta

from hermes.model.run import Lease


class HeldLease:
    """Of one run while this worker drives it. Shared by its slot and the heartbeat."""

    def __init__(self, lease: Lease, renewed_at: float, length: timedelta) -> None:
        self.lease = lease
        self._length = length.total_seconds()
        self._renewed_at = renewed_at
        self.lost = False
        """Somebody else may hold it: write nothing but receipts."""

    def renewed(self, at: float) -> None:
        """`at`: boot seconds read before the renewing transaction began, so that it never promises too much."""
        self._renewed_at = max(self._renewed_at, at)

    def good_for_effects(self, boot_seconds: float) -> bool:
        """No new effect is started in the last third: an answer to it could come after a take-over."""
        return not self.lost and boot_seconds < self._renewed_at + self._length * 2 / 3

    def expired(self, boot_seconds: float) -> bool:
        return boot_seconds >= self._renewed_at + self._length


class HeldLeases:
    def __init__(self) -> None:
        self._held: dict[str, HeldLease] = {}
        self._mutex = threading.Lock()

    def add(self, held: HeldLease) -> None:
        with self._mutex:
            self._held[held.lease.run_id] = held

    def drop(self, held: HeldLease) -> None:
        with self._mutex:
            if self._held.get(held.lease.run_id) is held:
                del self._held[held.lease.run_id]

    def all(self) -> list[HeldLease]:
        with self._mutex:
            return list(self._held.values())

    def __len__(self) -> int:
        with self._mutex:
            return len(self._held)
