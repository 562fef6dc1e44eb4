"""The order of a query's results. Rows without a value come last, whichever way the column is sorted.

Timestamps are sorted by what the board knows exactly, although it shows minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sources.board.call import Call, Json
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.plain_values import moment_of, plain_value
from sources.board.properties import render_value
from sources.board.schema import OPTION_TYPES, Schema, default_status, find_property
from sources.board.store import Node
from sources.board.times import Moment

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
            return (lambda page: (page.created_at, page.position)), descending
        if which == "last_edited_time":
            return (lambda page: (page.edited_at, page.position)), descending
        raise invalid_body(f"{path}.timestamp", '`"created_time"` or `"last_edited_time"`', which)
    name = sort.get("property", UNDEFINED)
    if not isinstance(name, str):
        raise invalid_body(f"{path}.property", "defined", name)
    property_id = find_property(schema, name)
    if property_id is None:
        raise invalid(f"Could not find sort property with name or id: {name}")
    return _property_key(call, property_id, schema[property_id]), descending


def _property_key(call: Call, property_id: str, prop: Json) -> Callable[[Node], Any]:
    """Options sort by their place in the schema, texts ignoring case; None where there is no value."""
    kind = prop["type"]
    if kind in OPTION_TYPES:
        rank = {option["id"]: number for number, option in enumerate(prop["options"])}
        if kind == "multi_select":
            return lambda page: [rank[i] for i in page.body["properties"].get(property_id) or () if i in rank] or None
        default = default_status(prop) if kind == "status" else None
        empty = rank[default["id"]] if default else None
        return lambda page: rank.get(page.body["properties"].get(property_id), empty)

    def key(page: Node) -> Any:
        value = plain_value(call, page, prop, page.body["properties"].get(property_id), render_value)
        return _comparable(value[value["type"]] if kind in ("formula", "rollup") else value)

    return key


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return value.lower() or None
    if isinstance(value, Moment):
        return value.at
    if isinstance(value, list):
        return [str(item) for item in value] or None
    if isinstance(value, dict):
        moment = moment_of(value) if "start" in value else None
        return moment.at if moment else None
    return value
