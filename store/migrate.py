"""Brings a database to this version's tables."""

from __future__ import annotations

from sqlmodel import SQLModel

import store.tables  # noqa: F401 -- registers the tables
from store.database import Database


def upgrade(database: Database) -> list[str]:
    """Until the first migration is written: every table that is missing is made."""
    SQLModel.metadata.create_all(database.engine)
    return []
