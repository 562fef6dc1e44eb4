"""One property of one page: /v1/pages/{page_id}/properties/{property_id}. Lists come in pages, the rest whole."""

from __future__ import annotations

from typing import Any

from sources.board.call import Call, Json
from sources.board.errors import invalid
from sources.board.ids import encoded
from sources.board.pages import find_page
from sources.board.paging import bad_cursor, envelope
from sources.board.properties import render_value, schema_of
from sources.board.richtext import render as render_text
from sources.board.schema import find_property
from sources.board.users import render_user

_LISTS = frozenset(("title", "rich_text", "relation", "people", "rollup"))


def retrieve(call: Call) -> Json:
    page = find_page(call, call.id_of("page_id"))
    schema = schema_of(call, page)
    key = call.params["property_id"]
    property_id = find_property(schema, key)
    if property_id is None:
        raise invalid(f"Could not find property with name or id: {key}")
    prop = schema[property_id]
    kind = prop["type"]
    stored = page.body["properties"].get(property_id)
    shown_id = encoded(property_id)
    if kind not in _LISTS:
        return {
            "object": "property_item",
            "type": kind,
            "id": shown_id,
            kind: render_value(call, page, property_id, prop, stored),
        }
    empty: Any = {}
    if kind == "rollup":
        empty = render_value(call, page, property_id, prop, stored)
        items = [item[item["type"]] for item in empty["array"]] if empty["type"] == "array" else []
        if empty["type"] == "array":
            empty = {**empty, "array": []}
    elif kind == "relation":
        items = [{"id": i} for i in stored or () if (other := call.store.get(i)) is not None and not other.in_trash]
    elif kind == "people":
        items = [render_user(call.board, user_id) for user_id in stored or ()]
    else:
        items = render_text(stored or (), call.board)
    listed = _page(call, items)
    results = [{"object": "property_item", "type": kind, "id": shown_id, kind: item} for item in listed["results"]]
    return {
        **listed,
        "results": results,
        "property_item": {
            "id": shown_id,
            "next_url": _next_url(call, page.id, shown_id, listed),
            "type": kind,
            kind: empty,
        },
    }


def _page(call: Call, items: list[Json]) -> Json:
    size, cursor = call.page_size(), call.start_cursor()
    if cursor is not None and not cursor.isdigit():
        raise bad_cursor(cursor)
    start = int(cursor) if cursor is not None else 0
    following = str(start + size) if start + size < len(items) else None
    return envelope(items[start : start + size], following, "property_item")


def _next_url(call: Call, page_id: str, property_id: str, listed: Json) -> str | None:
    if listed["next_cursor"] is None:
        return None
    return f"{call.base_url}/v1/pages/{page_id}/properties/{property_id}?start_cursor={listed['next_cursor']}"
