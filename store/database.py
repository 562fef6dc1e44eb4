"""Engines, pragmas and transactions. What is said inside a transaction stands in the statement files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sqlalchemy import URL, Connection, Engine, RootTransaction, create_engine, event, make_url

from hermes.clock import Clock
from hermes.errors import StoreDamaged, StoreError
from store.filesystem import file_system_type, refuse_network_file_system
from store.group_commit import GroupCommit
from store.outages import translated, trying_again
from store.pipeline import together
from store.postgres_engine import postgres_engine
from store.prepared import Prepared
from store.presence import Presence
from store.sqlite_gate import SqliteGate
from store.unit_of_work import UnitOfWork

BUSY_TIMEOUT_MS = 30_000
MIGRATIONS = 4730921
"""Key of PostgreSQL's advisory lock: whoever holds it changes tables."""

T = TypeVar("T")


def database_url(url: str) -> URL:
    """As operators write it; `postgresql://` and `postgres://` name the server, not a driver."""
    made = make_url(url)
    if made.drivername in ("postgresql", "postgres"):
        return made.set(drivername="postgresql+psycopg")
    if made.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreError(f"`database:` begins with {made.drivername}://, which Hermes cannot use: sqlite or postgresql")
    return made


@dataclass(frozen=True, slots=True)
class Server:
    SAFE: ClassVar = ("fsync", "full_page_writes", "synchronous_commit")
    """Settings that promises rest on: what was committed is there after a power cut."""

    version: str
    seconds_away: float
    """A question and its answer."""
    unsafe: dict[str, str]
    """Of those settings, the ones that are off."""


class Database:
    """One database of one installation.

    `write()` is one short transaction that is on the disk when it returns; `write(durable=False)` is for bookkeeping
    that may be lost at a power cut (never intents, leases or receipts); `read()` never blocks and never writes.
    `StoreUnavailable` says that a transaction could not be made for now. Transactions do not nest.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        unit: type[UnitOfWork] = UnitOfWork,
        lease_clock: Clock | None = None,
        connections: int = 12,
    ) -> None:
        """`lease_clock` decides leases in place of the machine's clock (SQLite) or the server's (PostgreSQL): for
        tests. `connections`: of PostgreSQL, as many as threads want to use it at once; twice as many in a rush."""
        self.url = database_url(url)
        self.clock = clock
        self._lease_clock = lease_clock
        self._unit = unit
        self._damage: str | None = None
        self._wakes: list[Callable[[], None]] = []
        self._card_wakes: list[Callable[[], None]] = []
        self._writing = threading.local()
        self._group: GroupCommit | None = None
        self._gate: SqliteGate | None = None
        if self.url.get_backend_name() == "sqlite":
            path = self._sqlite_path()
            path.parent.mkdir(parents=True, exist_ok=True)
            refuse_network_file_system(path.parent)
            self._gate = SqliteGate(path)
            self.presence: Presence | None = Presence(path)
            self._group = GroupCommit(self.write)
            self.engine = _sqlite_engine(url, synchronous="FULL")
            # `synchronous` cannot change inside a transaction and leaks through a pool: an engine of its own.
            self._bookkeeping = _sqlite_engine(url, synchronous="NORMAL")
            self._urgent = self.engine
        else:
            self.presence = None
            self.engine = self._bookkeeping = postgres_engine(self.url, connections, "hermes-poll")
            # A heartbeat waits for nobody's connection.
            self._urgent = postgres_engine(self.url, 2, "hermes-poll urgent")

    def _sqlite_path(self) -> Path:
        if not self.url.database or self.url.database == ":memory:":
            raise StoreError("SQLite in memory cannot be shared by threads and processes: name a file")
        return Path(self.url.database)

    def exists(self) -> bool:
        """Whether there is something to read. A SQLite file is made by the first transaction, even one that reads."""
        return self._gate is None or self._sqlite_path().exists()

    @contextmanager
    def write(self, *, urgent: bool = False, durable: bool = True) -> Iterator[UnitOfWork]:
        """One writing transaction; rolled back when the block raises. `urgent` goes before queued writers."""
        if getattr(self._writing, "now", False):
            raise StoreError("a writing transaction is open in this thread already: they do not nest")
        if self._damage is not None:
            raise StoreDamaged(self._damage)
        engine = (self._urgent if urgent else self.engine) if durable else self._bookkeeping
        self._writing.now = True
        try:
            with (
                self._gate.hold(urgent=urgent) if self._gate else nullcontext(),
                self._transaction(engine, writes=True, durable=durable) as unit,
            ):
                yield unit
        finally:
            self._writing.now = False
        if unit.woke:
            for wake in tuple(self._wakes):
                wake()
        if unit.card_due:
            for wake in tuple(self._card_wakes):
                wake()

    def commit(self, change: Callable[[UnitOfWork], T]) -> T:
        """`change` in a writing transaction; when it raises, nothing of it is kept. For short changes of busy loops:
        on SQLite it may share the wait for the disk with what other threads commit at the same moment, which
        PostgreSQL does by itself; there it is tried again when it has to give way to others, so `change` may be called
        several times."""
        if self._group is not None:
            return self._group.commit(change)

        return trying_again(partial(together, self.write, change), self.clock.sleep)

    @contextmanager
    def read(self) -> Iterator[UnitOfWork]:
        with self._transaction(self.engine, writes=False, durable=True) as unit:
            yield unit

    @contextmanager
    def _transaction(self, engine: Engine, *, writes: bool, durable: bool) -> Iterator[UnitOfWork]:
        try:
            with translated():
                begin = partial(self._begin, engine, writes=writes, durable=durable)
                opened = begin() if self._gate else trying_again(begin, self.clock.sleep)
                connection, transaction, now = opened
                with connection, transaction:
                    yield self._unit(connection, now)
        except StoreDamaged as exc:
            self._damage = self._damage or damage(self.url, str(exc))
            raise StoreDamaged(self._damage) from exc

    def _begin(self, engine: Engine, *, writes: bool, durable: bool) -> tuple[Connection, RootTransaction, datetime]:
        with translated(nothing_made=self._gate is None):
            connection = engine.connect().execution_options(hermes_writes=writes)
            try:
                return connection, connection.begin(), self._now(connection, durable)
            except BaseException:
                connection.close()
                raise

    @contextmanager
    def reshaping(self) -> Iterator[Connection]:
        """One transaction that changes tables, alone: for migrations. Rolled back when the block raises."""
        with (
            self._gate.hold(urgent=False) if self._gate else nullcontext(),
            translated(),
            self.engine.connect().execution_options(hermes_writes=True) as connection,
        ):
            connection.detach()  # it is made unlike the others, and not used again
            if self._gate is not None:
                # A table is changed by making it anew, which must not take along the rows that refer to it; and the
                # pragma does nothing inside a transaction.
                connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
            else:
                connection.connection.dbapi_connection.answer_timeout = None  # type: ignore[union-attr]
            with connection.begin():
                if self._gate is None:
                    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                    connection.exec_driver_sql("SET LOCAL lock_timeout = '10min'")
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATIONS})")
                yield connection

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each commit of this process that made a run due; returns what ends that."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)

    def subscribe_cards(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each commit of this process after which a card is due for a look."""
        self._card_wakes.append(wake)
        return lambda: self._card_wakes.remove(wake)

    def _now(self, connection: Connection, durable: bool) -> datetime:
        # One clock decides leases: on one machine the machine's, on several the database server's.
        if self._gate is not None:
            return (self._lease_clock or self.clock).now()
        asked = "SELECT clock_timestamp()"
        if not durable:
            asked += ", set_config('synchronous_commit', 'off', true)"
        with Prepared.errors(connection):
            driver: Any = connection.connection.dbapi_connection
            with driver.pipeline():  # BEGIN goes along
                answer = driver.execute(asked)
            now: datetime = answer.fetchone()[0]
        return self._lease_clock.now() if self._lease_clock else now

    def disk(self) -> tuple[Path, str | None] | None:
        """Where a SQLite file is, and on which type of file system; None for a server."""
        if self._gate is None:
            return None
        path = self._sqlite_path()
        table = Path("/proc/self/mountinfo")
        known = table.read_text(encoding="utf-8", errors="replace") if table.exists() else ""
        return path, file_system_type(path.parent.resolve(), known)

    def pragmas(self) -> dict[str, str]:
        """Of connections that write what must not be lost; empty where there are none."""
        if self._gate is None:
            return {}
        with self.engine.connect() as connection:
            names = ("journal_mode", "synchronous", "foreign_keys")
            return {name: str(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in names}

    def server(self) -> Server | None:
        """Of PostgreSQL; None for a file."""
        if self._gate is not None:
            return None
        with self.read() as unit:
            ask = unit.connection.exec_driver_sql
            settings = {name: str(ask(f"SHOW {name}").scalar_one()) for name in Server.SAFE}
            version = str(ask("SHOW server_version").scalar_one())
            began, asked = self.clock.boot_seconds(), 10
            for _ in range(asked):
                ask("SELECT 1").scalar_one()
            away = (self.clock.boot_seconds() - began) / asked
        return Server(version, away, {name: value for name, value in settings.items() if value == "off"})

    def close(self) -> None:
        for engine in {self.engine, self._bookkeeping, self._urgent}:
            engine.dispose()


def damage(url: URL, how: str) -> str:
    """What to do about a damaged database."""
    shown, how = url.render_as_string(), " ".join(how.split())
    if url.get_backend_name() != "sqlite":
        return (
            f"the database {shown} is damaged ({how}). Nothing is claimed any more. Stop every Hermes that uses it and "
            "restore a backup (a damaged index alone is mended by REINDEX), then start again. "
        ) + _AFTER_RESTORING
    return (
        f"the database {url.database} is damaged ({how}). Stop every Hermes that uses it and move it, its -wal and its "
        "-shm aside; then restore a backup, or save what can be read (sqlite3 FILE .recover | sqlite3 hermes.db). "
    ) + _AFTER_RESTORING


_AFTER_RESTORING = (
    "An empty one does not know its claims on the board: hermes-poll board adopt shows them and gives them back."
)


def _sqlite_engine(url: str, *, synchronous: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False})
    path = os.path.realpath(str(engine.url.database))

    @event.listens_for(engine, "connect")
    def _set_pragmas(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, see below
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            f"busy_timeout={BUSY_TIMEOUT_MS}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A deferred transaction that turns into a writer can fail half way with SQLITE_BUSY: writers say so at once.
        writes = connection.get_execution_options().get("hermes_writes", False)
        driver: Any = connection.connection.dbapi_connection  # not through SQLAlchemy: it is said at each transaction
        with Prepared.errors(connection):
            driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        # A removed file goes on taking what is written to it, and all of that is gone when it is closed.
        if writes and connection.info.setdefault("files", files := _files(path)) != files:
            raise StoreDamaged("its file or its -wal was removed or replaced while it was in use")

    return engine


def _files(path: str) -> list[tuple[int, int] | None]:
    """Which files these names mean now. SQLite itself keeps both as long as a connection is open."""
    found: list[tuple[int, int] | None] = []
    for name in (path, path + "-wal"):
        try:
            status = os.stat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return found
