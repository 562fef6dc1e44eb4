"""One at a time for whoever fires or waits for an event of the same name and instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlalchemy import func, select

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


def lock_pairs(uow: UnitOfWork, namespace: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Until the transaction ends. Without it a wait that looks for a kept event and an event that looks for a wait
    could miss each other, each before the other's commit. SQLite has one writer anyway. Taken before any row is
    locked, and always in one order, so that nobody waits in a circle."""
    if uow.dialect == "sqlite":
        return
    for name, instance_id in sorted(set(pairs)):
        text = "\x1f".join((namespace, name, instance_id))
        uow.connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(text, 0))))
