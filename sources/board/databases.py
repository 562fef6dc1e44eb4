"""Databases: /v1/databases. They hold data sources; before 2025-09-03 one is answered as one with its only source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sources.board.call import Call, Json, in_trash, refuse_trashed_ancestors
from sources.board.data_sources import add_source
from sources.board.data_sources import change as change_source
from sources.board.errors import UNDEFINED, archived_ancestor, invalid, invalid_body
from sources.board.files import accept_cover, accept_icon, render_cover, render_icon
from sources.board.ids import page_url, read_id
from sources.board.pages import only_source
from sources.board.parents import render_parent
from sources.board.richtext import accept as accept_text
from sources.board.richtext import plain
from sources.board.richtext import render as render_text
from sources.board.schema import render_schema
from sources.board.store import Node
from sources.board.times import exact_stamp, minute_stamp
from sources.board.users import partial
from sources.board.views import add_view

UNTITLED = ({"content": "New database"},)
"""How a database without a title is shown; its data source shows none."""


def create(call: Call) -> Json:
    parent_id = _parent_id(call, call.body.get("parent", UNDEFINED))
    title = accept_text(call.body.get("title", []), "body.title")
    database = call.store.put(
        call.new(
            "database",
            parent_id,
            {
                "title": title,
                "description": accept_text(call.body.get("description", []), "body.description"),
                "icon": accept_icon(call, call.body.get("icon"), "body.icon"),
                "cover": accept_cover(call, call.body.get("cover"), "body.cover"),
                "is_inline": bool(call.body.get("is_inline")),
            },
        )
    )
    initial = call.body.get("initial_data_source") or {}
    if not isinstance(initial, dict):
        raise invalid_body("body.initial_data_source", "an object", initial)
    properties, path = initial.get("properties"), "body.initial_data_source.properties"
    if call.legacy:
        properties, path = call.body.get("properties", UNDEFINED), "body.properties"
        if properties is UNDEFINED:
            raise invalid_body(path, "defined", UNDEFINED)
    source = add_source(call, database.id, properties, title, database.body["icon"], path)
    add_view(call, database.id, source.id, {"type": "table", "name": "Default view"})
    return render(call, database)


def _parent_id(call: Call, parent: Any) -> str | None:
    if not isinstance(parent, dict):
        raise invalid_body("body.parent", "defined", parent)
    if parent.get("workspace") is True:
        return None
    for key, kind in (("page_id", "page"), ("block_id", "block"), ("database_id", "database")):
        if key in parent:
            found = read_id(parent[key])
            if found is None:
                raise invalid_body(f"body.parent.{key}", "a valid uuid", parent[key])
            node = call.find(kind, found)
            if node.in_trash:
                raise archived_ancestor()
            refuse_trashed_ancestors(call.store, node)
            return node.id
    raise invalid_body("body.parent.page_id", "defined", UNDEFINED)


def find_database(call: Call, database_id: str) -> Node:
    node = call.store.get(database_id)
    if node is not None and node.kind == "page":
        raise invalid(f"Provided ID {database_id} is a page, not a database. Use the retrieve page API instead.")
    return call.find("database", database_id)


def retrieve(call: Call) -> Json:
    return render(call, find_database(call, call.id_of("database_id")))


def update(call: Call) -> Json:
    database = find_database(call, call.id_of("database_id"))
    wish = call.trash_wish()
    if database.in_trash and wish is not False:
        if wish is True:
            return render(call, database)
        raise archived_ancestor()
    refuse_trashed_ancestors(call.store, database)
    body = dict(database.body)
    for key in ("title", "description"):
        if key in call.body:
            body[key] = accept_text(call.body[key], f"body.{key}")
    if "icon" in call.body:
        body["icon"] = accept_icon(call, call.body["icon"], "body.icon")
    if "cover" in call.body:
        body["cover"] = accept_cover(call, call.body["cover"], "body.cover")
    for key in ("is_inline", "is_locked"):
        if key in call.body:
            body[key] = bool(call.body[key])
    parent_id, position = database.parent_id, database.position
    if "parent" in call.body:
        parent_id = _parent_id(call, call.body["parent"])
        position = call.store.place(parent_id)
    changed = call.store.put(
        call.edited(
            database,
            body=body,
            parent_id=parent_id,
            position=position,
            in_trash=database.in_trash if wish is None else wish,
        )
    )
    sources = call.store.children(database.id, "data_source")
    if "title" in call.body and len(sources) == 1:
        call.store.put(call.edited(sources[0].with_body(title=body["title"])))
    if call.legacy and "properties" in call.body:
        change_source(replace(call, body={"properties": call.body["properties"]}), only_source(call, changed))
    return render(call, changed)


def render(call: Call, database: Node) -> Json:
    return _render_legacy(call, database) if call.legacy else _render(call, database)


def _render(call: Call, database: Node) -> Json:
    body = database.body
    sources = [source for source in call.store.children(database.id, "data_source") if not source.in_trash]
    shown: Json = {
        "object": "database",
        "id": database.id,
        "title": render_text(body["title"] or UNTITLED, call.board),
        "description": render_text(body["description"], call.board),
        "parent": render_parent(call, database),
        "is_inline": bool(body.get("is_inline")),
        "in_trash": in_trash(call.store, database),
        "is_locked": bool(body.get("is_locked")),
        "created_time": exact_stamp(database.created_at),
        "last_edited_time": exact_stamp(database.edited_at),
        "data_sources": [{"id": s.id, "name": plain(s.body["title"] or UNTITLED, call.board)} for s in sources],
        "icon": render_icon(call, body.get("icon")),
        "cover": render_cover(call, body.get("cover")),
        "url": page_url(database.id),
        "public_url": None,
    }
    if call.says_archived:
        shown["archived"] = shown["in_trash"]
    return shown


def _render_legacy(call: Call, database: Node) -> Json:
    body = database.body
    source = only_source(call, database)
    return {
        "object": "database",
        "id": database.id,
        "cover": render_cover(call, body.get("cover")),
        "icon": render_icon(call, body.get("icon")),
        "created_time": minute_stamp(database.created_at),
        "created_by": partial(database.created_by),
        "last_edited_by": partial(database.edited_by),
        "last_edited_time": minute_stamp(database.edited_at),
        "title": render_text(body["title"], call.board),
        "description": render_text(body["description"], call.board),
        "is_inline": bool(body.get("is_inline")),
        "properties": render_schema(call, source.body["properties"]),
        "parent": render_parent(call, database),
        "url": page_url(database.id),
        "public_url": None,
        "archived": in_trash(call.store, database),
        "in_trash": in_trash(call.store, database),
    }
