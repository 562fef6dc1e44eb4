"""Statements on the row of a credential: the pause that holds for all, and the instants that are taken."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from hermes.ports.limits import LimitState
from store.tables.limits import LIMITS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_COLUMNS = select(LIMITS.c.paused_until, LIMITS.c.pause_reason, LIMITS.c.next_free_at, LIMITS.c.urgent_free_at)


class LimitRows:
    """Implements `hermes.ports.limits.LimitStatements`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def state(self, credential: str) -> LimitState:
        row = self._uow.connection.execute(_COLUMNS.where(LIMITS.c.credential == credential)).one_or_none()
        return LimitState() if row is None else LimitState(*row)

    def hold(self, credential: str) -> LimitState:
        self._make(credential)
        held = _COLUMNS.where(LIMITS.c.credential == credential).with_for_update()
        return LimitState(*self._uow.connection.execute(held).one())

    def take(
        self, credential: str, *, next_free_at: datetime | None = None, urgent_free_at: datetime | None = None
    ) -> None:
        wanted = {"next_free_at": next_free_at, "urgent_free_at": urgent_free_at}
        self._set(credential, {name: at for name, at in wanted.items() if at is not None})

    def pause(self, credential: str, until: datetime, reason: str) -> LimitState:
        self._make(credential)
        shorter = or_(LIMITS.c.paused_until.is_(None), LIMITS.c.paused_until < until)
        self._set(credential, {"paused_until": until, "pause_reason": reason}, shorter)
        return self.state(credential)

    def _make(self, credential: str) -> None:
        connection = self._uow.connection
        insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
        row = {"credential": credential, "updated_at": self._uow.now}
        connection.execute(insert(LIMITS).values(row).on_conflict_do_nothing(index_elements=["credential"]))

    def _set(self, credential: str, values: dict[str, Any], *conditions: Any) -> None:
        changed = update(LIMITS).where(LIMITS.c.credential == credential, *conditions)
        self._uow.connection.execute(changed.values(**values, updated_at=self._uow.now))
