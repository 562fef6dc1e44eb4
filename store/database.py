"""Engines, pragmas and transactions. What is said inside a transaction stands in the statement files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from hermes.clock import Clock
from hermes.errors import StoreError, StoreUnavailable
from store.filesystem import file_system_type, refuse_network_file_system
from store.group_commit import GroupCommit
from store.sqlite_gate import SqliteGate
from store.unit_of_work import UnitOfWork

BUSY_TIMEOUT_MS = 30_000

T = TypeVar("T")


class Database:
    """One database of one installation.

    `write()` is one short transaction that is on the disk when it returns; `write(durable=False)` is for bookkeeping
    that may be lost at a power cut (never intents, leases or receipts); `read()` never blocks and never writes.
    `StoreUnavailable` says that a transaction could not be made for now. Transactions do not nest.
    """

    def __init__(self, url: str, clock: Clock, *, unit: type[UnitOfWork] = UnitOfWork) -> None:
        self.url = make_url(url)
        self.clock = clock
        self._unit = unit
        self._wakes: list[Callable[[], None]] = []
        self._writing = threading.local()
        self._group = GroupCommit(self.write)
        self._gate: SqliteGate | None = None
        if self.url.get_backend_name() == "sqlite":
            path = self._sqlite_path()
            path.parent.mkdir(parents=True, exist_ok=True)
            refuse_network_file_system(path.parent)
            self._gate = SqliteGate(path)
            self.engine = _sqlite_engine(url, synchronous="FULL")
            # `synchronous` cannot change inside a transaction and leaks through a pool: an engine of its own.
            self._bookkeeping = _sqlite_engine(url, synchronous="NORMAL")
        else:
            self.engine = create_engine(self.url, pool_pre_ping=True)
            self._bookkeeping = self.engine

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
        engine = self.engine if durable else self._bookkeeping
        self._writing.now = True
        try:
            with (
                self._gate.hold(urgent=urgent) if self._gate else nullcontext(),
                _unavailable(),
                engine.connect().execution_options(hermes_writes=True) as connection,
                connection.begin(),
            ):
                unit = self._unit(connection, self._now(connection))
                yield unit
        finally:
            self._writing.now = False
        if unit.woke:
            for wake in tuple(self._wakes):
                wake()

    def commit(self, change: Callable[[UnitOfWork], T]) -> T:
        """`change` in a writing transaction, which it may share with what other threads commit at the same moment.
        For short changes of busy loops; when `change` raises, nothing of it is kept."""
        return self._group.commit(change)

    @contextmanager
    def read(self) -> Iterator[UnitOfWork]:
        with _unavailable(), self.engine.connect() as connection, connection.begin():
            yield self._unit(connection, self._now(connection))

    @contextmanager
    def reshaping(self) -> Iterator[Connection]:
        """One transaction that changes tables, alone: for migrations. Rolled back when the block raises."""
        with (
            self._gate.hold(urgent=False) if self._gate else nullcontext(),
            _unavailable(),
            self.engine.connect().execution_options(hermes_writes=True) as connection,
        ):
            if self._gate is not None:
                # A table is changed by making it anew, which must not take along the rows that refer to it; and the
                # pragma does nothing inside a transaction. This connection is not used again.
                connection.detach()
                connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
            with connection.begin():
                if self._gate is None:
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4730921)")
                yield connection

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each commit of this process that made a run due; returns what ends that."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)

    def _now(self, connection: Connection) -> Any:
        # One clock decides leases: on one machine the machine's, on several the database server's.
        if self._gate is not None:
            return self.clock.now()
        return connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()

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

    def close(self) -> None:
        self.engine.dispose()
        self._bookkeeping.dispose()


@contextmanager
def _unavailable() -> Iterator[None]:
    """Locked, full, unreachable: said in our own words, so that callers need not know the driver."""
    try:
        yield
    except (OperationalError, InterfaceError) as exc:
        raise StoreUnavailable(f"the database cannot be used for now: {exc.orig}") from exc
    except PoolTimeout as exc:
        raise StoreUnavailable(f"the database cannot be used for now: {exc}") from exc


def _sqlite_engine(url: str, *, synchronous: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False})

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
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
