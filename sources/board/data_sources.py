"""Data sources: /v1/data_sources. The table of a database: its columns, and the pages that are its rows."""

from __future__ import annotations

from sources.board.call import Bare, Call, Json, in_trash, refuse_trashed_ancestors
from sources.board.errors import UNDEFINED, archived_ancestor, invalid_body
from sources.board.files import accept_icon, render_cover, render_icon
from sources.board.ids import page_url, read_id
from sources.board.mirrors import add_mirrors
from sources.board.parents import render_parent
from sources.board.richtext import accept as accept_text
from sources.board.richtext import render as render_text
from sources.board.schema import Schema, accept_schema, render_schema, title_only, update_schema
from sources.board.store import Node
from sources.board.times import minute_stamp
from sources.board.users import partial


def add_source(
    call: Call, database_id: str, properties: Json | None, title: list[Json], icon: Json | None, path: str
) -> Node:
    schema: Schema = title_only()
    mirrors: list[tuple[str, Json]] = []
    if properties is not None:
        schema, mirrors = accept_schema(call, properties, path)
    source = call.store.put(
        call.new("data_source", database_id, {"title": title, "icon": icon, "properties": schema, "next_number": 1})
    )
    add_mirrors(call, source, mirrors)
    return call.find("data_source", source.id)


def create(call: Call) -> Json:
    parent = call.body.get("parent", UNDEFINED)
    if not isinstance(parent, dict):
        raise invalid_body("body.parent", "defined", parent)
    database_id = read_id(parent.get("database_id"))
    if database_id is None:
        raise invalid_body("body.parent.database_id", "a valid uuid", parent.get("database_id", UNDEFINED))
    database = call.find("database", database_id)
    if database.in_trash:
        raise archived_ancestor()
    title = accept_text(call.body.get("title", []), "body.title")
    icon = accept_icon(call, call.body.get("icon"), "body.icon")
    if "properties" not in call.body:
        raise invalid_body("body.properties", "defined", UNDEFINED)
    source = add_source(call, database_id, call.body["properties"], title, icon, "body.properties")
    return render(call, source)


def retrieve(call: Call) -> Json:
    return render(call, call.find("data_source", call.id_of("data_source_id")))


def update(call: Call) -> Json:
    source = call.find("data_source", call.id_of("data_source_id"))
    return render(call, change(call, source))


def change(call: Call, source: Node) -> Node:
    wish = call.trash_wish()
    if source.in_trash and wish is not False:
        if wish is True:
            return source
        raise archived_ancestor()
    refuse_trashed_ancestors(call.store, source)
    body = dict(source.body)
    mirrors: list[tuple[str, Json]] = []
    if "title" in call.body:
        body["title"] = accept_text(call.body["title"], "body.title")
    if "icon" in call.body:
        body["icon"] = accept_icon(call, call.body["icon"], "body.icon")
    if "properties" in call.body:
        change = update_schema(call, body["properties"], call.body["properties"], "body.properties")
        mirrors, body["properties"] = change.mirrors, change.schema
        _drop_values(call, source, change.gone)
        for other_id, mirror_id in change.unmirrored:
            _drop_mirror(call, source, other_id, mirror_id, body)
        for other_id, mirror_id in change.untied:
            _untie_mirror(call, source, other_id, mirror_id, body)
    parent_id, position = source.parent_id, source.position
    if "parent" in call.body:
        parent_id = read_id((call.body["parent"] or {}).get("database_id"))
        if parent_id is None:
            raise invalid_body("body.parent.database_id", "a valid uuid", call.body["parent"])
        call.find("database", parent_id)
        position = call.store.place(parent_id)
    changed = call.store.put(
        call.edited(
            source,
            body=body,
            parent_id=parent_id,
            position=position,
            in_trash=source.in_trash if wish is None else wish,
        )
    )
    add_mirrors(call, changed, mirrors)
    if "title" in call.body and is_first_source(call, changed):
        database = call.find("database", str(changed.parent_id))
        call.store.put(call.edited(database.with_body(title=body["title"])))
    return call.find("data_source", changed.id)


def is_first_source(call: Call, source: Node) -> bool:
    """The first source of a database shares its title."""
    return call.store.children(source.parent_id, "data_source")[0].id == source.id


def _drop_mirror(call: Call, source: Node, other_id: str, mirror_id: str, body: Json) -> None:
    """Take the other column of a two-way relation away; when both stand in one data source, out of the new `body`."""
    if other_id == source.id:
        body["properties"] = {i: prop for i, prop in body["properties"].items() if i != mirror_id}
        _drop_values(call, source, {mirror_id})
        return
    other = call.store.get(other_id)
    if other is not None:
        kept = {i: prop for i, prop in other.body["properties"].items() if i != mirror_id}
        call.store.put(other.with_body(properties=kept))
        _drop_values(call, other, {mirror_id})


def _untie_mirror(call: Call, source: Node, other_id: str, mirror_id: str, body: Json) -> None:
    """What was the other side of a two-way relation becomes a one-way relation."""
    other = call.store.get(other_id)
    schema = body["properties"] if other_id == source.id else other.body["properties"] if other else {}
    if mirror_id not in schema:
        return
    single = {key: value for key, value in schema[mirror_id].items() if key != "synced"} | {"dual": False}
    if other_id == source.id:
        body["properties"] = {**schema, mirror_id: single}
    elif other is not None:
        call.store.put(other.with_body(properties={**schema, mirror_id: single}))


def _drop_values(call: Call, source: Node, gone: set[str]) -> None:
    for page in call.store.children(source.id, "page") if gone else ():
        if gone & page.body["properties"].keys():
            kept = {i: value for i, value in page.body["properties"].items() if i not in gone}
            call.store.put(page.with_body(properties=kept))


def templates(call: Call) -> Json:
    """Templates are made by people in Notion's own client; a local board has none."""
    call.find("data_source", call.id_of("data_source_id"))
    return Bare(templates=[], has_more=False, next_cursor=None)


def render(call: Call, source: Node) -> Json:
    database = call.find("database", str(source.parent_id))
    shown: Json = {
        "object": "data_source",
        "id": source.id,
        "cover": render_cover(call, database.body.get("cover")),
        "icon": render_icon(call, source.body.get("icon")),
        "created_time": minute_stamp(source.created_at),
        "created_by": partial(source.created_by),
        "last_edited_by": partial(source.edited_by),
        "last_edited_time": minute_stamp(source.edited_at),
        "title": render_text(source.body["title"], call.board),
        "description": render_text(database.body["description"] if is_first_source(call, source) else (), call.board),
        "is_inline": bool(database.body.get("is_inline")),
        "properties": render_schema(call, source.body["properties"]),
        "parent": {"type": "database_id", "database_id": source.parent_id},
        "database_parent": render_parent(call, database),
        "url": page_url(database.id),
        "public_url": None,
        "in_trash": in_trash(call.store, source),
    }
    if call.says_archived:
        shown["archived"] = shown["in_trash"]
    return shown
