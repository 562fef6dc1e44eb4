"""The name of this installation, chosen when its database is made."""

from __future__ import annotations

import re
import secrets
import socket
from datetime import datetime

from sqlalchemy import Connection, select
from sqlmodel import col

from store.inserting import InsertIgnoring
from store.tables.installation import InstallationRow

_NEW = InsertIgnoring(InstallationRow.__table__, "id")  # type: ignore[attr-defined]


class InstallationStatements:
    def __init__(self, connection: Connection, now: datetime) -> None:
        self._connection = connection
        self._now = now

    def name(self) -> str:
        """The same for every process on this database. Made at the first call, inside a writing transaction.

        It begins with the host's name, so that a person who meets it on a card knows where to look; the random end
        keeps two databases on one host apart."""
        known = self._connection.execute(select(col(InstallationRow.name))).scalar_one_or_none()
        if known is not None:
            return str(known)
        host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().split(".")[0].lower()).strip("-")[:24] or "host"
        name = f"{host}-{secrets.token_hex(3)}"
        _NEW(self._connection, {"id": 1, "name": name, "created_at": self._now})
        # Another process may have been first at this very moment.
        return str(self._connection.execute(select(col(InstallationRow.name))).scalar_one())
