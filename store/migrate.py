"""Brings a database to this version's tables: whole, or not at all, however many processes start at once.

Migrations run in one transaction of the one writer there may be; whoever comes second finds nothing left to do. A
database of a newer Hermes is left alone, and so is one that is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event, inspect

import store.tables  # noqa: F401 -- registers the tables
from hermes.errors import StoreError
from store.database import Database, damage

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Version:
    """Where a database stands."""

    at: str | None
    """None: no tables yet."""
    pending: tuple[str, ...]
    """Migrations that would bring it up to date, as `0002 what it does`."""


def upgrade(database: Database) -> list[str]:
    """Check the file, then apply what is missing; returns the versions applied. Raises StoreError and changes nothing
    when the database is damaged, newer than this Hermes, or holds tables that no migration has made."""
    refuse_damaged(database)
    if not version(database).pending:
        return []
    with database.reshaping() as connection:
        return _apply(connection)


def version(database: Database) -> Version:
    """Reads only. Raises StoreError as `upgrade` does."""
    with database.read() as unit:
        at = _current(unit.connection)
    return Version(at, tuple(_steps_after(at)))


def statements(database: Database) -> list[str]:
    """What `upgrade` would say to the database now, tried in a transaction that is rolled back."""
    said: list[str] = []

    def listen(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            said.append(_with_values(statement, parameters))

    try:
        with database.reshaping() as connection:
            event.listen(connection, "before_cursor_execute", listen)
            _apply(connection)
            event.remove(connection, "before_cursor_execute", listen)
            raise _Undo
    except _Undo:
        return said


def refuse_damaged(database: Database) -> None:
    """SQLite's own quick check. Raises StoreError that says what to do."""
    if database.url.get_backend_name() != "sqlite":
        return
    with database.read() as unit:
        found = unit.connection.exec_driver_sql("PRAGMA quick_check(3)").scalars().all()
    if found != ["ok"]:
        raise StoreError(damage(database.url, "; ".join(map(str, found))))


def alembic_config(connection: Connection) -> Config:
    """Also what `store.migrations.write` uses."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.attributes.update(connection=connection, applied=[])
    return config


class _Undo(Exception):
    """Rolls a rehearsal back."""


def _apply(connection: Connection) -> list[str]:
    from alembic import command

    if not _steps_after(_current(connection)):
        return []  # another process was first
    config = alembic_config(connection)
    command.upgrade(config, "head")
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise StoreError(f"the migration would leave {broken[0]} pointing at missing rows of {broken[2]}")
    applied: list[str] = config.attributes["applied"]
    return applied


def _current(connection: Connection) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()
        return found
    ours = tables & set(_metadata_tables())
    if ours:
        raise StoreError(
            f"the database has tables ({', '.join(sorted(ours)[:3])}, ...) but no version: a development version or "
            "another program made it. Move it aside and start again, or name another under `database:`."
        )
    return None


def _metadata_tables() -> list[str]:
    from sqlmodel import SQLModel

    return list(SQLModel.metadata.tables)


def _steps_after(at: str | None) -> list[str]:
    """Migrations after `at`, oldest first, as `0002 what it does`. By their files' names: most commands look whether
    the database is up to date, and Alembic takes longer to import than they take to answer."""
    steps = [path.stem.removeprefix("v").replace("_", " ") for path in sorted((FOLDER / "versions").glob("v*.py"))]
    if at is None:
        return steps
    numbers = [step.split()[0] for step in steps]
    if at not in numbers:
        raise StoreError(
            f"the database has version {at}, and this Hermes knows versions up to {numbers[-1]}: a newer Hermes has "
            "used it. Install that one, or restore a backup from before the upgrade. Nothing was changed."
        )
    return steps[numbers.index(at) + 1 :]


def _with_values(statement: str, parameters: Any) -> str:
    text = statement.strip()
    return f"{text};  -- {parameters!r}" if parameters else f"{text};"
