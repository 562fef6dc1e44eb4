"""How a new migration is written: in SQLAlchemy's own types, so that it stays as it was when SQLModel's change."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import BigInteger
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

# A plain `datetime` of a table: with its zone on PostgreSQL; SQLite keeps UTC and no zone.
_UTC = "sa.DateTime(timezone=True)"


def render_item(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """Alembic's hook: False leaves it to Alembic."""
    if kind != "type":
        return False
    if isinstance(item, UTCDateTime):
        return _UTC
    if isinstance(item, AutoString):
        length = getattr(item.impl, "length", None)
        return f"sa.String(length={length})" if length else "sa.String()"
    if isinstance(item, BigInteger) and "sqlite" in item._variant_mapping:
        return 'sa.BigInteger().with_variant(sa.Integer(), "sqlite")'
    return False
