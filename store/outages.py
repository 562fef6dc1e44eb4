"""What an error of a driver means to a caller: not now, not made but worth another go at once, or damaged."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from hermes.errors import StoreDamaged, StoreUnavailable

T = TypeVar("T")

TRIES = 5
FIRST_PAUSE_SECONDS = 0.05

_AGAIN = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock: PostgreSQL chose this transaction to give way
        "55P03",  # a lock was waited for too long
        "57014",  # a statement took too long
        "53300",  # too many connections
    }
)
_UNAVAILABLE = frozenset(
    {
        "25006",  # a server that only reads: a replica, or one that is being replaced
        "25P02",  # an error before this one
        "25P03",  # idle inside a transaction for too long: this process was suspended
    }
)
_DAMAGED = frozenset({"XX001", "XX002"})


class NotMade(StoreUnavailable):
    """The transaction was surely not made, and may well be the next moment."""


def trying_again(attempt: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """A whole transaction, as often as it gives way to others; then it is unavailable. Only what surely was not made is
    tried again: after a lost connection at a COMMIT nobody knows, and the caller must look."""
    for number in range(TRIES):
        if number:
            sleep(FIRST_PAUSE_SECONDS * 2**number * random.random())  # noqa: S311 -- spreading, not secrecy
        try:
            return attempt()
        except NotMade as exc:
            last = exc
    raise StoreUnavailable(f"{last} ({TRIES} times in a row)") from last


@contextmanager
def translated(*, nothing_made: bool = False) -> Iterator[None]:
    """Errors of the database in our own words, so that callers need not know the driver. `nothing_made`: it has only
    been begun in this block, so that whatever fails may be tried again."""
    try:
        yield
    except DBAPIError as exc:
        found = _meaning(exc, nothing_made)
        if found is None:
            raise
        raise found from exc
    except PoolTimeout as exc:
        raise StoreUnavailable(f"the database cannot be used for now: {exc}") from exc


def _meaning(exc: DBAPIError, nothing_made: bool) -> StoreUnavailable | None:
    """None for a bug of ours: a broken rule, a wrong statement."""
    code = getattr(exc.orig, "sqlstate", None)
    told = f"the database cannot be used for now: {' '.join(str(exc.orig).split())}"
    if code in _DAMAGED or getattr(exc.orig, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    ):
        return StoreDamaged(str(exc.orig))
    if code in _AGAIN:
        return NotMade(told)
    if isinstance(exc, OperationalError | InterfaceError) or code in _UNAVAILABLE:
        slow = "timeout" in type(exc.orig).__name__.lower()  # five of them in a row would be far too long
        return NotMade(told) if nothing_made and not slow else StoreUnavailable(told)
    return None
