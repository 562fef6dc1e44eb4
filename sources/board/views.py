"""Views of a database: /v1/views. Kept and answered; the kanban page of the board has its own arrangement."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sources.board.call import Call, Json
from sources.board.errors import UNDEFINED, invalid_body
from sources.board.ids import page_url, read_id
from sources.board.paging import envelope, page_of
from sources.board.store import Node
from sources.board.times import exact_stamp
from sources.board.users import partial

QUERY_LIFE = timedelta(minutes=15)
_SETTABLE = ("name", "filter", "sorts", "quick_filters", "configuration")


def add_view(call: Call, database_id: str, data_source_id: str, settings: Json) -> Node:
    return call.store.put(call.new("view", database_id, {**settings, "data_source_id": data_source_id}))


def create(call: Call) -> Json:
    source = call.find("data_source", _body_id(call, "data_source_id"))
    database_id = _body_id(call, "database_id") if "database_id" in call.body else str(source.parent_id)
    call.find("database", database_id)
    kind = call.body.get("type", UNDEFINED)
    if not isinstance(kind, str):
        raise invalid_body("body.type", "defined", kind)
    settings = {"type": kind, **{key: call.body[key] for key in _SETTABLE if key in call.body}}
    return _render(call, add_view(call, database_id, source.id, settings))


def _body_id(call: Call, name: str) -> str:
    found = read_id(call.body.get(name))
    if found is None:
        raise invalid_body(f"body.{name}", "a valid uuid", call.body.get(name, UNDEFINED))
    return found


def list_views(call: Call) -> Json:
    database_id, source_id = read_id(call.argument("database_id")), read_id(call.argument("data_source_id"))
    views = [
        view
        for view in call.store.of_kind("view")
        if (database_id is None or view.parent_id == database_id)
        and (source_id is None or view.body["data_source_id"] == source_id)
    ]
    return page_of(call, [{"object": "view", "id": view.id} for view in views], "view")


def retrieve(call: Call) -> Json:
    return _render(call, call.find("view", call.id_of("view_id")))


def update(call: Call) -> Json:
    view = call.find("view", call.id_of("view_id"))
    changes = {key: call.body[key] for key in _SETTABLE if key in call.body}
    return _render(
        call,
        call.store.put(call.edited(view.with_body(**changes))),
    )


def delete(call: Call) -> Json:
    view = call.find("view", call.id_of("view_id"))
    call.store.remove(view.id)
    return {"object": "view", "id": view.id, "parent": _parent(view), "type": view.body["type"]}


def create_query(call: Call) -> Json:
    """Run a view once and keep its result for a quarter of an hour."""
    view = call.find("view", call.id_of("view_id"))
    pages = _matching(call, view)
    query = call.store.put(call.new("view_query", view.id, {"pages": [page.id for page in pages]}))
    listed = _results(call, query)
    return {
        "object": "view_query",
        "id": query.id,
        "view_id": view.id,
        "expires_at": exact_stamp(call.now + QUERY_LIFE),
        "total_count": len(pages),
        **{key: listed[key] for key in ("results", "next_cursor", "has_more")},
    }


def _matching(call: Call, view: Node) -> list[Node]:
    from sources.board.query import matching_pages

    source = call.find("data_source", view.body["data_source_id"])
    asked = {"filter": view.body.get("filter"), "sorts": view.body.get("sorts") or []}
    return matching_pages(replace(call, body=asked), source)


def query_results(call: Call) -> Json:
    return _results(call, _find_query(call))


def _results(call: Call, query: Node) -> Json:
    if not query.body["pages"]:
        return envelope([], None, "page")
    return page_of(call, [{"object": "page", "id": page_id} for page_id in query.body["pages"]], "page")


def delete_query(call: Call) -> Json:
    query = _find_query(call)
    call.store.remove(query.id)
    return {"object": "view_query", "id": query.id, "deleted": True}


def _find_query(call: Call) -> Node:
    query = call.find("view_query", call.id_of("query_id"))
    if query.parent_id != call.id_of("view_id") or query.created_at + QUERY_LIFE < call.now:
        raise call.missing("view_query", query.id)
    return query


def _parent(view: Node) -> Json:
    return {"type": "database_id", "database_id": view.parent_id}


def _render(call: Call, view: Node) -> Json:
    body = view.body
    bare = view.id.replace("-", "")
    return {
        "object": "view",
        "id": view.id,
        "parent": _parent(view),
        "data_source_id": body["data_source_id"],
        "name": body.get("name", ""),
        "type": body["type"],
        "created_time": exact_stamp(view.created_at),
        "created_by": partial(view.created_by),
        "last_edited_time": exact_stamp(view.edited_at),
        "last_edited_by": partial(view.edited_by),
        "url": f"{page_url(str(view.parent_id))}?v={bare}",
        "filter": body.get("filter"),
        "sorts": body.get("sorts"),
        "quick_filters": body.get("quick_filters"),
        "configuration": body.get("configuration") or {"type": body["type"]},
    }
