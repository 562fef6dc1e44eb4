"""The unit-of-work port: changes that span tables are made through one of these, so they commit together."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from hermes.ports.claims import ClaimStatements
from hermes.ports.runs import Places, Runs


class ClaimUnit(Protocol):
    """One transaction, as the claim protocol sees it."""

    @property
    def now(self) -> datetime:
        """The database's instant of this transaction: leases are decided by it."""
        ...

    @property
    def claims(self) -> ClaimStatements: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def places(self) -> Places: ...


class ClaimStore(Protocol):
    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[ClaimUnit]:
        """One short writing transaction, rolled back when the block raises. `urgent` goes before queued writers;
        `durable=False` may be lost at a power cut."""
        ...

    def read(self) -> AbstractContextManager[ClaimUnit]: ...
