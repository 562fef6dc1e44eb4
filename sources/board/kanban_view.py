"""What the kanban page shows: columns and cards, read from the store as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sources.board.board import Board
from sources.board.ids import PERSON_ID
from sources.board.plain_values import moment_of
from sources.board.richtext import plain, title_of
from sources.board.schema import Schema, default_status
from sources.board.store import Node

SHOWN_CARDS = 200
"""Of each column; the rest is counted."""
NO_VALUE = "none"
"""Stands for the missing option in addresses and forms."""


@dataclass(frozen=True, slots=True)
class Option:
    id: str
    name: str
    color: str


@dataclass(frozen=True, slots=True)
class CardView:
    id: str
    title: str
    priority: str = ""
    priority_color: str = "default"
    claimed_by: str = ""
    claim_expires_at: str = ""
    claim_expired: bool = False
    run_id: str = ""
    retry_count: int = 0
    last_error: str = ""
    edited_by: str = ""


@dataclass(frozen=True, slots=True)
class ColumnView:
    id: str
    name: str
    color: str
    total: int
    cards: list[CardView] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BoardView:
    id: str
    """Of the database."""
    title: str
    grouped: bool
    """False: there is no status or select column to move cards along."""
    columns: list[ColumnView]
    priorities: list[Option]
    revision: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Roles:
    """Which property plays which part; names are compared without case, spaces and underscores."""

    status: str | None
    priority: str | None
    description: str | None
    claimed_by: str | None
    claim_expires_at: str | None
    run_id: str | None
    retry_count: str | None
    last_error: str | None

    @classmethod
    def of(cls, schema: Schema) -> Roles:
        names = {_bare(prop["name"]): i for i, prop in schema.items()}
        priority = names.get("priority")
        return cls(
            status=_grouping(schema, names, priority),
            priority=priority,
            description=_typed(schema, names.get("description"), "rich_text"),
            claimed_by=names.get("claimedby"),
            claim_expires_at=_typed(schema, names.get("claimexpiresat"), "date"),
            run_id=names.get("runid"),
            retry_count=_typed(schema, names.get("retrycount"), "number"),
            last_error=names.get("lasterror"),
        )


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _typed(schema: Schema, property_id: str | None, kind: str) -> str | None:
    return property_id if property_id is not None and schema[property_id]["type"] == kind else None


def _grouping(schema: Schema, names: Mapping[str, str], priority: str | None) -> str | None:
    statuses = [i for i, prop in schema.items() if prop["type"] == "status"]
    if statuses:
        return statuses[0]
    named = _typed(schema, names.get("status"), "select")
    selects = [i for i, prop in schema.items() if prop["type"] == "select" and i != priority]
    return named or (selects[0] if selects else None)


def board_view(board: Board, database: Node, source: Node, now: datetime) -> BoardView:
    schema: Schema = source.body["properties"]
    roles = Roles.of(schema)
    grouped: dict[str, list[Node]] = {}
    for page in board.store.children(source.id, "page"):
        if not page.in_trash:
            grouped.setdefault(column_of(schema, roles, page), []).append(page)
    return BoardView(
        id=database.id,
        title=title_of(database.body, board) or "New database",
        grouped=roles.status is not None,
        columns=[
            ColumnView(
                id=option.id,
                name=option.name,
                color=option.color,
                total=len(grouped.get(option.id, ())),
                cards=_cards(board, schema, roles, grouped.get(option.id, []), now, waiting=number == 0),
            )
            for number, option in enumerate(_columns(schema, roles, grouped))
        ],
        priorities=options_of(schema, roles.priority),
        revision=board.store.revision,
    )


def _columns(schema: Schema, roles: Roles, grouped: Mapping[str, object]) -> list[Option]:
    options = options_of(schema, roles.status)
    if NO_VALUE in grouped or not options:
        options.insert(0, Option(NO_VALUE, "No status" if roles.status else "Cards", "default"))
    return options


def options_of(schema: Schema, property_id: str | None) -> list[Option]:
    """In the order of the schema; a status in the order of its groups."""
    prop = schema.get(property_id or "", {})
    options = {o["id"]: Option(o["id"], o["name"], o["color"]) for o in prop.get("options", ())}
    if "groups" in prop:
        return [options[i] for group in prop["groups"] for i in group["option_ids"] if i in options]
    return list(options.values())


def column_of(schema: Schema, roles: Roles, page: Node) -> str:
    if roles.status is None:
        return NO_VALUE
    prop = schema[roles.status]
    chosen = page.body["properties"].get(roles.status)
    if any(option["id"] == chosen for option in prop["options"]):
        return str(chosen)
    default = default_status(prop) if prop["type"] == "status" else None
    return NO_VALUE if default is None else str(default["id"])


def _cards(
    board: Board, schema: Schema, roles: Roles, pages: Iterable[Node], now: datetime, *, waiting: bool
) -> list[CardView]:
    """Where cards wait: by priority, then age, as they are taken. Elsewhere: what changed last comes first."""
    rank = {option.id: number for number, option in enumerate(options_of(schema, roles.priority))}
    if waiting:
        ordered = sorted(pages, key=lambda p: (rank.get(_value(p, roles.priority), len(rank)), p.created_at))
    else:
        ordered = sorted(pages, key=lambda p: p.edited_at, reverse=True)
    return [card_view(board, schema, roles, page, now) for page in ordered[:SHOWN_CARDS]]


def _value(page: Node, property_id: str | None) -> Any:
    return None if property_id is None else page.body["properties"].get(property_id)


def card_view(board: Board, schema: Schema, roles: Roles, page: Node, now: datetime) -> CardView:
    chosen = _value(page, roles.priority)
    priority = next((o for o in options_of(schema, roles.priority) if o.id == chosen), None)
    if priority is None and isinstance(chosen, int | float):
        priority = Option("", str(chosen), "default")
    expires = moment_of(_value(page, roles.claim_expires_at))
    retries = _value(page, roles.retry_count)
    editor = board.user(page.edited_by)
    return CardView(
        id=page.id,
        title=title_of(page.body, board) or "Untitled",
        priority=priority.name if priority else "",
        priority_color=priority.color if priority else "default",
        claimed_by=_text(board, page, roles.claimed_by),
        claim_expires_at=expires.at.isoformat() if expires else "",
        claim_expired=expires is not None and expires.at < now,
        run_id=_text(board, page, roles.run_id),
        retry_count=int(retries) if isinstance(retries, int | float) else 0,
        last_error=_text(board, page, roles.last_error),
        edited_by="" if editor is None or editor.id == PERSON_ID else str(editor.body["name"]),
    )


def _text(board: Board, page: Node, property_id: str | None) -> str:
    stored = _value(page, property_id)
    return plain(stored, board) if isinstance(stored, list) else ""


@dataclass(frozen=True, slots=True)
class Line:
    """One block of a page's content, as far as a reader needs it."""

    kind: str
    text: str
    depth: int
    checked: bool = False


def content_lines(board: Board, node: Node, depth: int = 0) -> list[Line]:
    lines: list[Line] = []
    for child in board.store.children(node.id, "block", "page", "database"):
        if child.in_trash:
            continue
        if child.kind != "block":
            lines.append(Line(child.kind, title_of(child.body, board) or "Untitled", depth))
            continue
        content = child.body["content"]
        text = plain(content.get("rich_text", ()), board) or str(content.get("url") or content.get("expression") or "")
        if child.body["type"] == "table_row":
            text = " | ".join(plain(cell, board) for cell in content.get("cells", ()))
        lines.append(Line(child.body["type"], text, min(depth, 6), bool(content.get("checked"))))
        lines.extend(content_lines(board, child, depth + 1))
    return lines


@dataclass(frozen=True, slots=True)
class CommentView:
    author: str
    created_at: str
    text: str


def comment_views(board: Board, page: Node) -> list[CommentView]:
    return [
        CommentView(
            author=str(comment.body["display_name"]["resolved_name"] or "someone"),
            created_at=comment.created_at.isoformat(timespec="seconds"),
            text=plain(comment.body["text"], board),
        )
        for comment in board.store.children(page.id, "comment")
    ]
