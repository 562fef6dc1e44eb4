"""Keys of the API. The key itself is nowhere: only its hash."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, Text, UniqueConstraint
from sqlmodel import Field, SQLModel


class ApiKeyRow(SQLModel, table=True):
    __tablename__ = "api_keys"
    __table_args__ = (
        UniqueConstraint("name", name="uq_api_keys_name"),
        UniqueConstraint("prefix", name="uq_api_keys_prefix"),
    )

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=100)
    prefix: str = Field(max_length=20)
    """Names the key in lists, and finds its row."""
    hash: str = Field(max_length=64)
    """SHA-256 of the whole key, in hexadecimal: of 32 random bytes nobody guesses the origin, so it needs no salt."""
    namespace: str = Field(max_length=100)
    scopes: str = Field(sa_type=Text)
    """A JSON list."""
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


API_KEYS: Table = ApiKeyRow.__table__  # type: ignore[attr-defined]
