"""Connections to PostgreSQL: how many, what they wait for, and for how long.

A lease is 30 s by default and renewed every 10 s, so whatever holds a connection up must be over, one way or the
other, well within a lease.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.string import StrDumper, StrDumperUnknown
from sqlalchemy import URL, Engine, create_engine, event

LOCK_TIMEOUT = 5
"""Seconds. Longer than PostgreSQL's deadlock_timeout (1 s), so that a deadlock is told as one; shorter than the pause
between heartbeats, so that one which waits is given up and tried again within its lease."""
IDLE_TIMEOUT = 15
"""Of a transaction that asks for nothing. None of ours waits for anything but the database, so this one's process is
suspended: its locks go before its leases do."""
STATEMENT_TIMEOUT = 20
"""Ours take milliseconds. For a scan that went wrong or a disk that does not answer."""
ANSWER_TIMEOUT = 25
"""By the client's own clock, for a server or a network that keeps silent and closes nothing."""
CONNECT_TIMEOUT = 5

_OPTIONS = {
    "lock_timeout": f"{LOCK_TIMEOUT}s",
    "idle_in_transaction_session_timeout": f"{IDLE_TIMEOUT}s",
    "statement_timeout": f"{STATEMENT_TIMEOUT}s",
}


class Connection(psycopg.Connection[Any]):
    """Gives up an answer that does not come."""

    answer_timeout: float | None = ANSWER_TIMEOUT
    """None for a migration, which may take its time."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout if timeout is not None else self.answer_timeout)
        except psycopg.errors._WaitTimeout as exc:
            self.pgconn.finish()  # what comes late must not be taken for the answer to something else
            raise psycopg.errors.ConnectionTimeout(f"no answer within {self.answer_timeout:.0f} s") from exc


class _TextDumper(StrDumper):
    """PostgreSQL keeps no NUL in a text. It means nothing in an error message or a title, and refusing it would make
    a run fail for ever that SQLite can keep."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\x00", "\ufffd"))


class _UntypedTextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\x00", "\ufffd"))


def postgres_engine(url: URL, connections: int, name: str) -> Engine:
    """`name` is what pg_stat_activity shows. No pool_pre_ping: each transaction begins with a question to the server's
    clock, and when that finds a dead connection nothing has been made yet and it is tried again on another."""
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        use_native_hstore=False,  # it would be asked for at each new connection
        pool_size=connections,
        max_overflow=connections,
        pool_timeout=LOCK_TIMEOUT,
        pool_use_lifo=True,
        connect_args={
            "application_name": name,
            "connect_timeout": CONNECT_TIMEOUT,
            "options": " ".join(f"-c {option}={value}" for option, value in _OPTIONS.items()),
            # A machine that went away without a word, noticed by the kernel.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": ANSWER_TIMEOUT * 1000,
        },
    )

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        connection = Connection.connect(*arguments, **named)
        connection.adapters.register_dumper(str, _UntypedTextDumper)
        connection.adapters.register_dumper(str, _TextDumper)
        return connection

    return engine
