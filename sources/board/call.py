"""One request as handlers see it: who asks, in which version of the API, for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from sources.board.board import Board
from sources.board.errors import UNDEFINED, archived_ancestor, invalid_body, invalid_id, invalid_query, not_found
from sources.board.ids import new_id, read_id
from sources.board.store import Node, Store

Json: TypeAlias = dict[str, Any]

LEGACY, DATA_SOURCES, NEWEST = "2022-06-28", "2025-09-03", "2026-03-11"
VERSIONS = (LEGACY, DATA_SOURCES, NEWEST)
PAGE_SIZE = 100


@dataclass(slots=True)
class Call:
    board: Board
    user_id: str
    version: str
    params: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Json
    now: datetime
    base_url: str = ""
    files: Json = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    """Pages that a query leaves out, although they match: a fault of the query route."""
    stale: Mapping[str, Node] = field(default_factory=dict)
    """Pages that a query shows as they were: likewise."""
    ignores_filter: bool = False
    cursor_expired: bool = False
    lenient: bool = False
    """Columns that do not exist are passed over in a write: a fault of Notion's."""

    @property
    def store(self) -> Store:
        return self.board.store

    @property
    def legacy(self) -> bool:
        """Before data sources: a database holds the schema and the pages."""
        return self.version < DATA_SOURCES

    @property
    def says_archived(self) -> bool:
        """Before 2026-03-11 answers carry `archived` beside `in_trash`."""
        return self.version < NEWEST

    def new(
        self, kind: str, parent_id: str | None, body: Json, *, position: float | None = None, node_id: str | None = None
    ) -> Node:
        """An object made by this call, last in its parent's order unless told otherwise. Not kept yet."""
        return Node(
            id=node_id or new_id(),
            kind=kind,
            parent_id=parent_id,
            position=self.store.place(parent_id) if position is None else position,
            created_at=self.now,
            edited_at=self.now,
            created_by=self.user_id,
            edited_by=self.user_id,
            in_trash=False,
            body=body,
        )

    def edited(self, node: Node, **changes: Any) -> Node:
        """The node as this call's author leaves it. Not kept yet."""
        return replace(node, edited_at=self.now, edited_by=self.user_id, **changes)

    def id_of(self, name: str) -> str:
        text = self.params[name]
        found = read_id(text)
        if found is None:
            raise invalid_id(name, text)
        return found

    def missing(self, kind: str, object_id: str) -> Exception:
        return not_found(kind, object_id, self.board.integration(self.user_id))

    def find(self, kind: str, object_id: str) -> Node:
        """The object of that kind, trashed or not."""
        node = self.store.get(object_id)
        if node is None or node.kind != kind:
            raise self.missing(kind, object_id)
        return node

    def argument(self, name: str) -> str | None:
        values = self.query.get(name)
        return values[0] if values else None

    def page_size(self) -> int:
        """From the query string or the body; 1 to 100."""
        text = self.argument("page_size")
        if text is not None:
            if not text.isdigit() or int(text) < 1:
                raise invalid_query("query.page_size", "a positive number", text)
            if int(text) > PAGE_SIZE:
                raise invalid_query("query.page_size", f"≤ `{PAGE_SIZE}`", int(text))
            return int(text)
        size = self.body.get("page_size", PAGE_SIZE)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise invalid_body("body.page_size", "a positive number", size)
        if size > PAGE_SIZE:
            raise invalid_body("body.page_size", f"≤ `{PAGE_SIZE}`", size)
        return size

    def start_cursor(self) -> str | None:
        cursor = self.argument("start_cursor")
        if cursor is not None:
            return cursor
        cursor = self.body.get("start_cursor", UNDEFINED)
        if cursor is UNDEFINED or cursor is None:
            return None
        if not isinstance(cursor, str):
            raise invalid_body("body.start_cursor", "a string or `undefined`", cursor)
        return cursor

    def trash_wish(self) -> bool | None:
        """`in_trash` or its older spelling in a PATCH; None when neither is there."""
        if "archived" in self.body and not self.says_archived:
            raise invalid_body("body.archived", "not present", self.body["archived"])
        wish = self.body.get("in_trash", self.body.get("archived"))
        if wish is not None and not isinstance(wish, bool):
            raise invalid_body("body.in_trash", "a boolean or `undefined`", wish)
        return wish


Handler: TypeAlias = Callable[[Call], Json]


class Accepted(dict[str, Any]):
    """An answer with status 202: the work goes on."""


class Bare(dict[str, Any]):
    """An answer that carries no request id in its body."""


def refuse_trashed_ancestors(store: Store, node: Node) -> None:
    """Writes below a trashed object are refused."""
    above = store.get(node.parent_id)
    if above is not None and in_trash(store, above):
        raise archived_ancestor()


def in_trash(store: Store, node: Node) -> bool:
    """What stands below a trashed object is in the trash with it."""
    above: Node | None = node
    while above is not None:
        if above.in_trash:
            return True
        above = store.get(above.parent_id)
    return False
