"""Everything on the board, as nodes of one tree: held in memory, written through to one SQLite file.

One process serves a file (a lock beside it says so) and one thread uses a Store, so a transaction needs no isolation of
its own: it is a list of nodes written together, and an undo list for the memory when the handler fails.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeAlias

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    parent_id TEXT,
    position REAL NOT NULL,
    created_at TEXT NOT NULL,
    edited_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    edited_by TEXT NOT NULL,
    in_trash INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID
"""
_COLUMNS = "id, kind, parent_id, position, created_at, edited_at, created_by, edited_by, in_trash, body"


@dataclass(frozen=True, slots=True)
class Node:
    """One object. `body` is shared with the memory of the store: replace it, never change it in place."""

    id: str
    kind: str
    """page, database, data_source, block, comment, view, view_query, file_upload, async_task, user"""
    parent_id: str | None
    position: float
    created_at: datetime
    edited_at: datetime
    created_by: str
    edited_by: str
    in_trash: bool
    body: dict[str, Any]

    def with_body(self, **changes: Any) -> Node:
        return replace(self, body={**self.body, **changes})


Changes: TypeAlias = Mapping[str, tuple[Node | None, Node | None]]
"""By id: what an object was before a transaction, and what it is after it; None is not there."""


class BoardInUse(Exception):
    """Another process serves this file."""


class Store:
    def __init__(self, path: Path, *, durable: bool = False) -> None:
        """`durable` waits for the disk at every change; without it the last moments before a power failure may be lost,
        while a killed process still loses nothing that was answered."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _hold(path)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise ValueError(f"{path} was written by a newer version of the board (schema {found})")
        self._db.execute(_SCHEMA)
        self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._nodes: dict[str, Node] = {}
        self._order: dict[str | None, list[tuple[float, str]]] = {}
        self._kinds: dict[str, dict[str, None]] = {}
        self._written: dict[str, Node | None] | None = None
        self._undo: dict[str, Node | None] = {}
        self.revision = 0
        """Grows with every change: what the kanban page asks for."""
        self.on_commit: list[Callable[[Changes], None]] = []
        for row in self._db.execute(f"SELECT {_COLUMNS} FROM node ORDER BY created_at, id"):  # noqa: S608
            self._remember(_read(row))

    def close(self) -> None:
        self._db.close()
        self._lock.close()

    def get(self, node_id: str | None) -> Node | None:
        return self._nodes.get(node_id) if node_id is not None else None

    def children(self, parent_id: str | None, *kinds: str) -> list[Node]:
        """In the order of the page, trashed ones included."""
        found = [self._nodes[node_id] for _, node_id in self._order.get(parent_id, ())]
        return [node for node in found if node.kind in kinds] if kinds else found

    def of_kind(self, kind: str) -> list[Node]:
        """In the order of their making."""
        return [self._nodes[node_id] for node_id in self._kinds.get(kind, ())]

    def put(self, node: Node) -> Node:
        self._change(node.id, node)
        return node

    def remove(self, node_id: str) -> None:
        """For good: with everything below it."""
        for _, child in list(self._order.get(node_id, ())):
            self.remove(child)
        self._change(node_id, None)

    def place(self, parent_id: str | None, *, after: str | None = None, first: bool = False) -> float:
        """A position in the parent's order: last, first, or behind a sibling."""
        order = self._order.get(parent_id, [])
        if not order:
            return 0.0
        if first:
            return order[0][0] - 1.0
        if after is None or after == order[-1][1]:
            return order[-1][0] + 1.0
        index = bisect_left(order, (self._nodes[after].position, after))
        low, high = order[index][0], order[index + 1][0]
        middle = (low + high) / 2
        if not low < middle < high:
            for number, (_, sibling) in enumerate(list(order)):
                self.put(replace(self._nodes[sibling], position=float(number)))
            return index + 0.5
        return middle

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside are kept together, or none of them."""
        if self._written is not None:
            raise RuntimeError("transactions do not nest")
        self._written, self._undo = {}, {}
        try:
            yield
            self._commit(self._written)
            changes = {node_id: (self._undo[node_id], node) for node_id, node in self._written.items()}
        except BaseException:
            for node_id, before in self._undo.items():
                self._swap(node_id, before)
            raise
        finally:
            self._written, self._undo = None, {}
        for hear in self.on_commit if changes else ():
            hear(changes)

    def _commit(self, written: dict[str, Node | None]) -> None:
        if not written:
            return
        kept = [_row(node) for node in written.values() if node is not None]
        gone = [(node_id,) for node_id, node in written.items() if node is None]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if kept:
                self._db.executemany(f"INSERT OR REPLACE INTO node ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", kept)  # noqa: S608
            if gone:
                self._db.executemany("DELETE FROM node WHERE id = ?", gone)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self.revision += 1

    def _change(self, node_id: str, node: Node | None) -> None:
        if self._written is None:
            raise RuntimeError("changes are made inside a transaction")
        self._undo.setdefault(node_id, self._nodes.get(node_id))
        self._written[node_id] = node
        self._swap(node_id, node)

    def _swap(self, node_id: str, node: Node | None) -> None:
        before = self._nodes.get(node_id)
        if before is not None and (
            node is None
            or (before.parent_id, before.position, before.kind) != (node.parent_id, node.position, node.kind)
        ):
            order = self._order[before.parent_id]
            order.pop(bisect_left(order, (before.position, node_id)))
            if not order:
                del self._order[before.parent_id]
            del self._kinds[before.kind][node_id]
            before = None
        if node is None:
            self._nodes.pop(node_id, None)
        elif before is None:
            self._remember(node)
        else:
            self._nodes[node_id] = node

    def _remember(self, node: Node) -> None:
        self._nodes[node.id] = node
        insort(self._order.setdefault(node.parent_id, []), (node.position, node.id))
        self._kinds.setdefault(node.kind, {})[node.id] = None


def _hold(path: Path) -> IO[str]:
    lock = open(f"{path}.lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        lock.close()
        raise BoardInUse(f"another process serves {path}") from exc
    return lock


def _row(node: Node) -> tuple[Any, ...]:
    return (
        node.id,
        node.kind,
        node.parent_id,
        node.position,
        node.created_at.astimezone(UTC).isoformat(timespec="microseconds"),
        node.edited_at.astimezone(UTC).isoformat(timespec="microseconds"),
        node.created_by,
        node.edited_by,
        int(node.in_trash),
        json.dumps(node.body, ensure_ascii=False, separators=(",", ":")),
    )


def _read(row: tuple[Any, ...]) -> Node:
    node_id, kind, parent_id, position, created_at, edited_at, created_by, edited_by, in_trash, body = row
    return Node(
        id=node_id,
        kind=kind,
        parent_id=parent_id,
        position=position,
        created_at=datetime.fromisoformat(created_at),
        edited_at=datetime.fromisoformat(edited_at),
        created_by=created_by,
        edited_by=edited_by,
        in_trash=bool(in_trash),
        body=json.loads(body),
    )
