"""One transaction, its instant, and the statement groups that may be used inside it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from store.limits import LimitRows


class UnitOfWork:
    """Changes that span tables are made through one of these, so they commit together."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self.connection = connection
        self.now = now
        self.limits = LimitRows(self)
