"""The order of a query's results. Rows without a value come last, whichever way the column is sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sources.board.call import Call
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.ids import PERSON_ID
from sources.board.properties import render_value
from sources.board.richtext import plain
from sources.board.schema import OPTION_TYPES, Schema, find_property
from sources.board.store import Node
from sources.board.times import floor_minute, read_moment

MAX_SORTS = 100


def sort_pages(call: Call, schema: Schema, pages: list[Node], sorts: Any) -> list[Node]:
    """Pages by the first sort, then the second, and so on; equal ones stay in the order they have."""
    if not isinstance(sorts, list):
        raise invalid_body("body.sorts", "an array", sorts)
    if len(sorts) > MAX_SORTS:
        raise invalid_body("body.sorts.length", f"≤ `{MAX_SORTS}`", len(sorts))
    keys = [_key(call, schema, sort, f"body.sorts[{number}]") for number, sort in enumerate(sorts)]
    for key, descending in reversed(keys):
        filled = [page for page in pages if key(page) is not None]
        empty = [page for page in pages if key(page) is None]
        pages = sorted(filled, key=key, reverse=descending) + empty
    return pages


def _key(call: Call, schema: Schema, sort: Any, path: str) -> tuple[Callable[[Node], Any], bool]:
    if not isinstance(sort, dict):
        raise invalid_body(path, "an object", sort)
    direction = sort.get("direction", "ascending")
    if direction not in ("ascending", "descending"):
        raise invalid_body(f"{path}.direction", '`"ascending"` or `"descending"`', direction)
    descending = direction == "descending"
    if "timestamp" in sort:
        which = sort["timestamp"]
        if which == "created_time":
            return (lambda page: floor_minute(page.created_at)), descending
        if which == "last_edited_time":
            return (lambda page: floor_minute(page.edited_at)), descending
        raise invalid_body(f"{path}.timestamp", '`"created_time"` or `"last_edited_time"`', which)
    name = sort.get("property", UNDEFINED)
    if not isinstance(name, str):
        raise invalid_body(f"{path}.property", "defined", name)
    property_id = find_property(schema, name)
    if property_id is None:
        raise invalid(f"Could not find sort property with name or id: {name}")
    return _property_key(call, property_id, schema[property_id]), descending


def _property_key(call: Call, property_id: str, prop: dict[str, Any]) -> Callable[[Node], Any]:
    kind = prop["type"]

    def stored(page: Node) -> Any:
        return page.body["properties"].get(property_id)

    if kind in ("title", "rich_text"):
        return lambda page: plain(stored(page), call.board).lower() or None if stored(page) else None
    if kind in ("url", "email", "phone_number"):
        return lambda page: (stored(page) or "").lower() or None
    if kind == "date":
        return lambda page: _instant(stored(page))
    if kind in OPTION_TYPES:
        rank = {option["id"]: number for number, option in enumerate(prop["options"])}
        if kind == "multi_select":
            return lambda page: [rank.get(i, len(rank)) for i in stored(page)] if stored(page) else None
        return lambda page: rank.get(stored(page))
    if kind == "checkbox":
        return lambda page: bool(stored(page))
    if kind == "created_time":
        return lambda page: floor_minute(page.created_at)
    if kind == "last_edited_time":
        return lambda page: floor_minute(page.edited_at)
    if kind in ("people", "relation", "files"):
        return lambda page: [str(item) for item in stored(page)] if stored(page) else None
    if kind in ("created_by", "last_edited_by"):
        return lambda page: page.created_by if kind == "created_by" else page.edited_by or PERSON_ID
    if kind in ("formula", "rollup"):
        return lambda page: _computed(render_value(call, page, property_id, prop, stored(page)))
    return lambda page: stored(page) if isinstance(stored(page), int | float) else None


def _instant(date: dict[str, Any] | None) -> Any:
    moment = read_moment(date["start"]) if date else None
    return moment.at if moment else None


def _computed(value: dict[str, Any]) -> Any:
    inner = value.get(value["type"])
    if value["type"] == "date":
        return _instant(inner)
    return inner if isinstance(inner, str | int | float) else None
