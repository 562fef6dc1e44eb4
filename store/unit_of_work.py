"""One transaction, its instant, and the statement groups that may be used inside it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from store.api_keys import ApiKeyStatements
from store.claims import ClaimStatements
from store.endings import EndingStatements
from store.events import EventStatements
from store.installation import InstallationStatements
from store.leases import LeaseStatements
from store.limits import LimitRows
from store.pipeline import Pipeline
from store.places import PlaceStatements
from store.polls import PollStatements
from store.prepared import Prepared
from store.retention import RetentionStatements
from store.runs import RunStatements
from store.steps import StepStatements
from store.survey import SurveyStatements
from store.waits import WaitStatements


class UnitOfWork:
    """Changes that span tables are made through one of these, so they commit together."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self._connection = connection
        self.now = now
        self.pipeline: Pipeline | None = None
        """Where statements wait for each other, in a transaction that has one."""
        self.woke = False
        """Something became due: workers of this process look at once when it has committed."""
        self.card_due = False
        """A card is due for a look: so does whoever claims and shows."""
        self.limits = LimitRows(self)

    @property
    def connection(self) -> Connection:
        """For any statement; what waited is sent before."""
        if self.pipeline is not None:
            self.pipeline.settle()
        return self._connection

    @property
    def dialect(self) -> str:
        return self._connection.dialect.name

    def changes_one(self, statement: Prepared, values: Mapping[str, Any]) -> bool:
        """For a statement that changes one row unless something is amiss: where round trips are dear it is believed to
        for now, and the whole transaction made again without believing if it did not."""
        if self.pipeline is None:
            return statement.change(self._connection, values) == 1
        self.pipeline.add(statement, values)
        return True

    def rows(self, statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
        if self.pipeline is None:
            return statement.rows(self._connection, values)
        return self.pipeline.rows(statement, values)

    def row(self, statement: Prepared, values: Mapping[str, Any]) -> Any:
        """The one row that there is, or None."""
        found = self.rows(statement, values)
        return found[0] if found else None

    def wakes(self) -> None:
        self.woke = True

    def run_changed(self, run_id: str, kind: str, object_id: str | None) -> None:
        """Called in the transaction in which a run hibernates, is delivered again, ends, parks, is cancelled or
        resumed: its card, if it has one, is due for a look."""
        if object_id is not None:
            if self.pipeline is not None:
                self.pipeline.settle()
            self.claims.run_changed(run_id)
            self.card_due = True
            self.wakes()

    @cached_property
    def api_keys(self) -> ApiKeyStatements:
        return ApiKeyStatements(self)

    @cached_property
    def installation(self) -> InstallationStatements:
        return InstallationStatements(self.connection, self.now)

    @cached_property
    def claims(self) -> ClaimStatements:
        return ClaimStatements(self.connection, self.now)

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

    @cached_property
    def events(self) -> EventStatements:
        return EventStatements(self)

    @cached_property
    def waits(self) -> WaitStatements:
        return WaitStatements(self)

    @cached_property
    def polls(self) -> PollStatements:
        return PollStatements(self)

    @cached_property
    def survey(self) -> SurveyStatements:
        return SurveyStatements(self)

    @cached_property
    def retention(self) -> RetentionStatements:
        return RetentionStatements(self)
