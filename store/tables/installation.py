"""The one row that names this installation."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Field, SQLModel


class InstallationRow(SQLModel, table=True):
    __tablename__ = "installation"

    id: int = Field(default=1, primary_key=True)
    name: str = Field(max_length=64)
    """Random, chosen when the database is made; part of every ClaimedBy we write."""
    created_at: datetime
