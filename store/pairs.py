"""One at a time for whoever fires or waits for an event of the same name and instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlalchemy import String, bindparam, func, select

from store.prepared import Prepared

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_LOCK = Prepared(select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("b_pair", type_=String), 0))))


def lock_pairs(uow: UnitOfWork, namespace: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Until the transaction ends. Without it a wait that looks for a kept event and an event that looks for a wait
    could miss each other, each before the other's commit. SQLite has one writer anyway. Taken before any row is
    locked, and always in one order, so that nobody waits in a circle."""
    if uow.dialect == "sqlite":
        return
    for name, instance_id in sorted(set(pairs)):
        text = "\x1f".join((namespace, name, instance_id))
        uow.changes_one(_LOCK, {"b_pair": text})  # it answers one row, and goes along with what comes next
