"""Queries over a data source: filter, sort, page. Also the legacy query over a database."""

from __future__ import annotations

from sources.board.call import Call, Json
from sources.board.databases import find_database
from sources.board.errors import invalid, invalid_body
from sources.board.filters import compile_filter
from sources.board.pages import only_source
from sources.board.pages import render as render_page
from sources.board.paging import envelope, offset_cursor, read_offset_cursor
from sources.board.sorts import sort_pages
from sources.board.store import Node

RESULT_LIMIT = 10_000


def query_data_source(call: Call) -> Json:
    return _query(call, call.find("data_source", call.id_of("data_source_id")))


def query_database(call: Call) -> Json:
    shown = _query(call, only_source(call, find_database(call, call.id_of("database_id"))))
    return {
        **{k: v for k, v in shown.items() if k != "page_or_data_source"},
        "type": "page_or_database",
        "page_or_database": {},
    }


def matching_pages(call: Call, source: Node) -> list[Node]:
    """Every row that the body's filter lets through, in the order it asks for (without one: the newest first)."""
    schema = source.body["properties"]
    trashed = call.body.get("in_trash", call.body.get("archived", False))
    if not isinstance(trashed, bool):
        raise invalid_body("body.in_trash", "a boolean or `undefined`", trashed)
    # A page that has left the board since is still there for a query that lags.
    here = {page.id: page for page in call.store.children(source.id, "page")} | dict(call.stale)
    pages = [page for page in here.values() if page.id not in call.hidden and page.parent_id == source.id]
    pages = [page for page in reversed(pages) if page.in_trash == trashed]
    condition = call.body.get("filter")
    if condition:
        matches = compile_filter(call, schema, condition)
        if not call.ignores_filter:
            pages = [page for page in pages if matches(page)]
    sorts = call.body.get("sorts")
    return sort_pages(call, schema, pages, sorts) if sorts is not None else pages


def _query(call: Call, source: Node) -> Json:
    size = call.page_size()
    cursor = call.start_cursor()
    if cursor is not None and call.cursor_expired:
        raise invalid("The start_cursor provided is invalid: it may have expired.")
    pages = matching_pages(call, source)
    start = 0
    if cursor is not None:
        start, next_id = read_offset_cursor(cursor)
        start = next((n for n, page in enumerate(pages) if page.id == next_id), min(start, len(pages)))
    end = min(start + size, RESULT_LIMIT)
    shown = [render_page(call, page) for page in pages[start:end]]
    more = end < len(pages) and end < RESULT_LIMIT
    answer = envelope(shown, offset_cursor(end, pages[end].id) if more else None, "page_or_data_source")
    if not more and len(pages) > RESULT_LIMIT:
        answer["request_status"] = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
    return answer
