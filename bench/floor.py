"""What the database itself can do here: small durable transactions a second of one connection, one after the other."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import psycopg

from bench.databases import Databases
from bench.table import Table

COUNT = 1000


def measure(databases: Databases, kinds: list[str]) -> Table:
    table = Table("Bare durable commits of one connection: the floor under everything below", ["database", "commits/s"])
    for kind in kinds:
        seconds = _sqlite(databases.fresh(kind)) if kind == "sqlite" else _postgresql(databases.fresh(kind))
        table.add(kind, f"{COUNT / seconds:.0f}")
    return table


def _sqlite(path: str) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE kept (number INTEGER)")
        began = time.monotonic()
        for number in range(COUNT):
            connection.execute("INSERT INTO kept VALUES (?)", [number])
        return time.monotonic() - began


def _postgresql(url: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (number INTEGER)")
        began = time.monotonic()
        for number in range(COUNT):
            connection.execute("INSERT INTO kept VALUES (%s)", [number])
        return time.monotonic() - began
