"""Pages of a board as cards, and what is written to a card as page properties."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from hermes.errors import Misconfigured, Skippable
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.json import JSON
from sources.notion.columns import Column, Columns
from sources.notion.text import cut, plain_text, rich_text, storable

ERROR_UNITS = 1900
"""Longest LastError, below the 2,000 of a segment."""
ERROR_NOTE = " … (cut; the whole text is in the page)"
LABEL_UNITS = 1900
MOST_RETRIES = 1_000_000
"""A count of retries beyond it is no count."""


def in_trash(page: Mapping[str, Any]) -> bool:
    """`archived` is what versions before 2026-03-11 call it."""
    return bool(page.get("in_trash") or page.get("archived"))


def to_card(page: Mapping[str, Any], columns: Columns) -> Card:
    """Raises `Skippable` for a page that cannot be read; a column that cannot is left out."""
    page_id = str(page.get("id") or "?")
    try:
        return _to_card(page_id, page, columns)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
        raise Skippable(f"Page {page_id} cannot be read ({type(exc).__name__})", record_id=page_id) from exc


def _to_card(page_id: str, page: Mapping[str, Any], columns: Columns) -> Card:
    entries = page["properties"]
    by_id = {entry["id"]: entry for entry in entries.values() if isinstance(entry, dict) and "id" in entry}

    def value(logical: str) -> Any:
        column = columns.get(logical)
        entry = by_id.get(column.id) if column else None
        return entry.get(entry.get("type")) if entry else None

    def text(logical: str) -> str | None:
        return plain_text(value(logical)).strip() or None

    option = value("status")
    status = option if isinstance(option, dict) else None
    priority = value("priority")
    option_id = str(priority.get("id")) if isinstance(priority, dict) else None
    named = priority.get("name") if isinstance(priority, dict) else priority
    if isinstance(named, str):
        named = storable(named)
    elif isinstance(named, bool) or _number(named) is None:
        named = None
    edited_by = page.get("last_edited_by")
    return Card(
        id=str(page["id"]),
        url=storable(str(page.get("url") or "")),
        title=plain_text(value("title")),
        status=columns.role_of(status),
        status_name=storable(str(status["name"])) if status else None,
        priority=named,
        priority_rank=columns.rank_of(named, option_id),
        description=plain_text(value("description")),
        created_at=to_instant(page["created_time"]),
        edited_at=to_instant(page["last_edited_time"]),
        edited_by=str(edited_by["id"]) if isinstance(edited_by, dict) and edited_by.get("id") else None,
        claimed_by=text("claimed_by"),
        claimed_at=_start(value("claimed_at")),
        claim_expires_at=_start(value("claim_expires_at")),
        run_id=text("run_id"),
        completed_at=_start(value("completed_at")),
        retry_count=int(min(max(0.0, _number(value("retry_count")) or 0.0), MOST_RETRIES)),
        last_error=text("last_error"),
        in_trash=in_trash(page),
        properties={storable(str(name)): plain for name, entry in entries.items() for plain in _readable(entry)},
    )


def to_instant(value: str) -> datetime:
    """Aware UTC. A day without a time is its midnight, a time without a zone is taken as UTC."""
    at = datetime.fromisoformat(value)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _start(value: object) -> datetime | None:
    """None for a date that no `datetime` can hold as well: anybody may have typed it."""
    start = value.get("start") if isinstance(value, dict) else None
    try:
        return to_instant(start) if isinstance(start, str) else None
    except (ValueError, OverflowError):
        return None


def _number(value: object) -> float | None:
    """None for what is no number, or none that can be reckoned with."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _readable(entry: object) -> list[JSON]:
    """One plain value, or none for a column of a kind we do not know."""
    if not isinstance(entry, dict):
        return []
    try:
        return [_storable(_plain(str(entry["type"]), entry.get(str(entry["type"]))))]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []


def _storable(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return storable(value) if isinstance(value, str) else value


def _plain(kind: str, value: Any) -> JSON:
    match kind:
        case "title" | "rich_text":
            return plain_text(value)
        case "select" | "status":
            return str(value["name"]) if value else None
        case "multi_select":
            return [str(option["name"]) for option in value]
        case "number" | "url" | "email" | "phone_number" | "created_time" | "last_edited_time":
            if value is not None and not isinstance(value, str | int | float):
                raise ValueError(kind)
            return value
        case "checkbox":
            return bool(value)
        case "date":
            return str(value["start"]) if value else None
        case "people":
            return [_person(person) for person in value]
        case "created_by" | "last_edited_by":
            return _person(value)
        case "relation":
            return [str(page["id"]) for page in value]
        case "files":
            return [str(file["name"]) for file in value]
        case "unique_id":
            prefix = value.get("prefix")
            return f"{prefix}-{value['number']}" if prefix else str(value["number"])
        case "formula":
            inner = str(value["type"])
            return _plain({"string": "url", "boolean": "checkbox"}.get(inner, inner), value[inner])
        case "rollup":
            inner = str(value["type"])
            if inner == "array":
                return [_plain(str(part["type"]), part[str(part["type"])]) for part in value["array"]]
            return _plain(inner, value[inner])
        case _:
            raise ValueError(kind)


def _person(person: Mapping[str, Any]) -> str:
    return str(person.get("name") or person["id"])


def to_properties(values: CardValues, columns: Columns) -> dict[str, Any]:
    """The body of a PATCH, by column id. Raises `Misconfigured` naming a column or option that is not there."""
    return {columns.require(logical).id: _payload(logical, value, columns) for logical, value in values.items()}


def _payload(logical: str, value: Any, columns: Columns) -> dict[str, Any]:
    column = columns.require(logical)
    if logical == "status":
        return {column.type: {"id": columns.option_for(CardStatus(value)).id}}
    if column.type == "rich_text":
        return {"rich_text": rich_text(_fitting(logical, value or ""))}
    if column.type == "date":
        return {"date": None if value is None else {"start": _minute(value, up=logical == "claim_expires_at")}}
    if column.type == "number":
        return {"number": value}
    raise Misconfigured(f"column {column.name!r} of type {column.type} cannot be written")


def _fitting(logical: str, text: str) -> str:
    return cut(text, ERROR_UNITS, note=ERROR_NOTE) if logical == "last_error" else cut(text, LABEL_UNITS)


def _minute(at: datetime, *, up: bool) -> str:
    """Notion keeps minutes. An expiry is never shown earlier than it is."""
    floored = at.astimezone(UTC).replace(second=0, microsecond=0)
    if up and floored < at:
        floored += timedelta(minutes=1)
    return floored.strftime("%Y-%m-%dT%H:%M:%SZ")


def shows(entry: Mapping[str, Any], column: Column, sent: Mapping[str, Any]) -> bool:
    """Does a column of the answer hold what was sent to it?"""
    got, want = entry.get(column.type), sent[column.type]
    if column.type in ("status", "select"):
        return isinstance(got, dict) and got.get("id") == want.get("id")
    if column.type == "rich_text":
        return _normal(plain_text(got)) == _normal(plain_text(want))
    if column.type == "date":
        started, meant = _start(got), _start(want)
        return _floor(started) == _floor(meant)
    return bool(got == want)


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _floor(at: datetime | None) -> datetime | None:
    return at and datetime.combine(at.date(), time(at.hour, at.minute), tzinfo=at.tzinfo)
