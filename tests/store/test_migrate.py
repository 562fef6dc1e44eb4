"""Migrations: whole or not at all, whoever starts first, and never on a database that is newer or damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect
from sqlmodel import SQLModel

import store.migrate
from hermes.clock import SystemClock
from hermes.errors import StoreError
from hermes.testing.databases import Databases, PostgresServer
from store.database import Database
from store.migrate import refuse_damaged, statements, upgrade, version


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """Empty."""
    database = Database(databases.url(tables=False), SystemClock())
    yield database
    database.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


@pytest.fixture
def file(path: Path) -> Iterator[Database]:
    """Empty, of SQLite."""
    database = Database(f"sqlite:///{path}", SystemClock())
    yield database
    database.close()


def layout(database: Database) -> dict[str, Any]:
    """What `compare_metadata` does not look at: checks, foreign keys, the conditions of partial indexes."""
    seen = inspect(database.engine)
    found: dict[str, Any] = {}
    for table in sorted(set(seen.get_table_names()) - {"alembic_version"}):
        indexes = seen.get_indexes(table)
        found[table] = {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"]) for column in seen.get_columns(table)
            },
            "checks": sorted((check["name"] or "", check["sqltext"]) for check in seen.get_check_constraints(table)),
            "foreign keys": seen.get_foreign_keys(table),
            "unique": seen.get_unique_constraints(table),
            "primary key": seen.get_pk_constraint(table),
            "indexes": {
                index["name"]: (index["column_names"], str(index["dialect_options"].get(f"{seen.dialect.name}_where")))
                for index in indexes
            },
        }
    return found


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(database: Database, databases: Databases) -> None:
    upgrade(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"render_as_batch": True})
        assert compare_metadata(context, SQLModel.metadata) == [], "run: python -m store.migrations.write"
    straight = databases.open(SystemClock(), "straight")
    assert layout(database) == layout(straight), "run: python -m store.migrations.write"


def test_a_second_upgrade_does_nothing(database: Database) -> None:
    assert upgrade(database)
    assert upgrade(database) == []
    assert version(database).pending == ()


def test_processes_that_start_at_once_migrate_once(databases: Databases) -> None:
    opened = [Database(databases.url(tables=False), SystemClock()) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        applied = list(threads.map(upgrade, opened))
    assert [bool(versions) for versions in sorted(applied)] == [False] * 7 + [True]
    for database in opened:
        database.close()


def test_a_newer_database_is_refused_and_left_as_it_is(database: Database) -> None:
    upgrade(database)
    with database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"version 9999.*newer Hermes"):
        upgrade(database)
    with database.read() as unit:
        assert unit.connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == ["9999"]


def test_tables_that_no_migration_made_are_refused(database: Database) -> None:
    SQLModel.metadata.create_all(database.engine)
    with pytest.raises(StoreError, match="no version"):
        upgrade(database)


def test_a_migration_that_fails_leaves_nothing_behind(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import command

    real = command.upgrade

    def fail(config: Any, revision: str) -> None:
        real(config, revision)
        raise OSError("no space left on device")

    monkeypatch.setattr(command, "upgrade", fail)
    with pytest.raises(OSError, match="no space"):
        upgrade(database)
    assert inspect(database.engine).get_table_names() == []
    monkeypatch.undo()
    assert upgrade(database)


def test_a_migration_may_take_longer_than_anything_else_may(postgres_server: PostgresServer) -> None:
    """Not given up by the limits that keep leases safe."""
    url = postgres_server.new_database(tables=False)
    database = Database(url, SystemClock())
    with database.reshaping() as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in ("statement_timeout", "lock_timeout")
        ]
        assert shown == ["0", "10min"]
        assert connection.connection.dbapi_connection.answer_timeout is None  # type: ignore[union-attr]
    with database.read() as unit:
        assert unit.connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "20s"
        assert unit.connection.connection.dbapi_connection.answer_timeout  # type: ignore[union-attr]
    database.close()
    postgres_server.drop(url)


def test_a_rehearsal_says_the_statements_and_changes_nothing(database: Database) -> None:
    said = statements(database)
    assert any(statement.startswith("CREATE TABLE runs") for statement in said)
    assert inspect(database.engine).get_table_names() == []
    upgrade(database)
    assert statements(database) == []


def test_rows_that_refer_to_each_other_survive_a_table_that_is_made_anew(file: Database, path: Path) -> None:
    upgrade(file)
    with file.write() as unit:
        unit.connection.exec_driver_sql(
            "INSERT INTO runs (id, key, kind, function, args, state, held, hold_on_redelivery, priority, fence, "
            "deliveries, max_deliveries, crashes, take_overs, created_at, changed_at, duplicates) "
            "VALUES ('r', 'k', 'function', 'f', '{}', 'ready', 0, 0, 0, 0, 0, 1, 0, 0, '2026-01-01', '2026-01-01', 0)"
        )
        unit.connection.exec_driver_sql(
            "INSERT INTO steps (run_id, seq, kind, name, state, attempts, attempts_before, fence) "
            "VALUES ('r', 1, 'command', 'c', 'done', 1, 0, 0)"
        )
    from alembic.operations import Operations

    with file.reshaping() as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("runs", recreate="always") as batch:
            batch.drop_column("duplicates")
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT count(*) FROM steps JOIN runs ON runs.id = steps.run_id").fetchone() == (1,)
    with file.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1


@pytest.mark.parametrize("page", [0, 2, 5])
def test_D8_a_damaged_file_is_refused_with_what_to_do(file: Database, path: Path, page: int) -> None:
    upgrade(file)
    file.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as damaged:
        damaged.seek(page * 4096)
        damaged.write(b"\xff" * 4096)
    with pytest.raises(StoreError, match=r"damaged.*backup"):
        upgrade(Database(f"sqlite:///{path}", SystemClock()))


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("poll: notion-tasks\n" * 400)
    with pytest.raises(StoreError, match="damaged"):
        refuse_damaged(Database(f"sqlite:///{path}", SystemClock()))


def test_the_files_names_tell_the_order_that_alembic_sees(database: Database) -> None:
    script = ScriptDirectory(str(store.migrate.FOLDER))
    revisions = [step.revision for step in reversed(list(script.walk_revisions()))]
    assert [step.split()[0] for step in version(database).pending] == revisions
    assert script.get_heads() == revisions[-1:]


def test_every_migration_is_found_in_the_installed_package() -> None:
    assert {path.name for path in (store.migrate.FOLDER).iterdir()} >= {"env.py", "script.py.mako", "versions"}
