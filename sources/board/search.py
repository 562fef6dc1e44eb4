"""Search by title over pages and data sources (databases before 2025-09-03): /v1/search."""

from __future__ import annotations

from sources.board.call import Call, Json, in_trash
from sources.board.data_sources import render as render_source
from sources.board.databases import render as render_database
from sources.board.errors import invalid_body
from sources.board.pages import render as render_page
from sources.board.paging import envelope, offset_cursor, read_offset_cursor
from sources.board.richtext import title_of
from sources.board.store import Node
from sources.board.times import floor_minute


def search(call: Call) -> Json:
    size = call.page_size()
    found = sorted(_candidates(call), key=lambda node: floor_minute(node.edited_at), reverse=_descending(call))
    words = str(call.body.get("query") or "").lower().split()
    if words:
        found = [node for node in found if all(word in title_of(node.body, call.board).lower() for word in words)]
    start = 0
    cursor = call.start_cursor()
    if cursor is not None:
        start, next_id = read_offset_cursor(cursor)
        start = next((n for n, node in enumerate(found) if node.id == next_id), min(start, len(found)))
    end = start + size
    following = offset_cursor(end, found[end].id) if end < len(found) else None
    kind = "page_or_database" if call.legacy else "page_or_data_source"
    return envelope([_render(call, node) for node in found[start:end]], following, kind)


def _descending(call: Call) -> bool:
    sort = call.body.get("sort") or {}
    if not isinstance(sort, dict) or sort.get("timestamp", "last_edited_time") != "last_edited_time":
        raise invalid_body("body.sort.timestamp", '`"last_edited_time"`', sort)
    return bool(sort.get("direction", "descending") == "descending")


def _candidates(call: Call) -> list[Node]:
    table = "database" if call.legacy else "data_source"
    kinds = ["page", table]
    condition = call.body.get("filter")
    if condition:
        wanted = condition.get("value") if isinstance(condition, dict) else condition
        if wanted not in kinds:
            raise invalid_body("body.filter.value", f'`"page"` or `"{table}"`', wanted)
        kinds = [wanted]
    return [node for kind in kinds for node in call.store.of_kind(kind) if not in_trash(call.store, node)]


def _render(call: Call, node: Node) -> Json:
    if node.kind == "page":
        return render_page(call, node)
    return render_source(call, node) if node.kind == "data_source" else render_database(call, node)
