"""One transaction, its instant, and the statement groups that may be used inside it."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from sqlalchemy import Connection

from store.endings import EndingStatements
from store.leases import LeaseStatements
from store.limits import LimitRows
from store.places import PlaceStatements
from store.runs import RunStatements
from store.steps import StepStatements


class UnitOfWork:
    """Changes that span tables are made through one of these, so they commit together."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self.connection = connection
        self.now = now
        self.woke = False
        """Something became due: workers of this process look at once when it has committed."""
        self.limits = LimitRows(self)

    def wakes(self) -> None:
        self.woke = True

    def run_changed(self, run_id: str, kind: str, object_id: str | None) -> None:
        """Called in the transaction in which a run hibernates, is delivered again, ends, parks, is cancelled or
        resumed: the place for what must be done about its card."""

    @cached_property
    def runs(self) -> RunStatements:
        return RunStatements(self)

    @cached_property
    def places(self) -> PlaceStatements:
        return PlaceStatements(self)

    @cached_property
    def leases(self) -> LeaseStatements:
        return LeaseStatements(self)

    @cached_property
    def steps(self) -> StepStatements:
        return StepStatements(self)

    @cached_property
    def endings(self) -> EndingStatements:
        return EndingStatements(self)
