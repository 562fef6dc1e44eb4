"""Pages: /v1/pages. A page is a row when it stands in a data source, a page of its own anywhere else."""

from __future__ import annotations

from typing import Any

from sources.board.blocks import append_blocks, empty_page, keep_blocks
from sources.board.call import Call, Json, in_trash, refuse_trashed_ancestors
from sources.board.errors import UNDEFINED, archived_ancestor, invalid, invalid_body
from sources.board.files import accept_cover, accept_icon, render_cover, render_icon
from sources.board.ids import page_url, read_id
from sources.board.markdown import from_markdown
from sources.board.mirrors import mirror_relations
from sources.board.parents import render_parent
from sources.board.properties import TITLE_ONLY, accept_values, render_values, schema_of
from sources.board.richtext import title_of
from sources.board.schema import Schema, find_property
from sources.board.store import Node
from sources.board.times import minute_stamp
from sources.board.users import partial


def create(call: Call) -> Json:
    parent = _parent(call, call.body.get("parent", UNDEFINED))
    if parent is not None and in_trash(call.store, parent):
        raise archived_ancestor()
    schema: Schema = parent.body["properties"] if parent is not None and parent.kind == "data_source" else TITLE_ONLY
    values, grown = accept_values(call, schema, call.body.get("properties", {}), "body.properties")
    page = call.new(
        "page",
        parent.id if parent else None,
        {
            "properties": values,
            "icon": accept_icon(call, call.body.get("icon"), "body.icon"),
            "cover": accept_cover(call, call.body.get("cover"), "body.cover"),
        },
    )
    if parent is not None and parent.kind == "data_source":
        page = _numbered(call, parent, schema, grown, page)
    call.store.put(page)
    mirror_relations(call, page, {})
    if "markdown" in call.body:
        keep_blocks(call, page, from_markdown(call.body["markdown"]), "body.markdown")
    elif call.body.get("children"):
        append_blocks(call, page, call.body["children"])
    return render(call, page)


def _numbered(call: Call, source: Node, schema: Schema, grown: Schema, page: Node) -> Node:
    """Give the page the next number of its data source, and keep new options of the schema."""
    number = source.body.get("next_number", 1)
    call.store.put(source.with_body(properties=grown, next_number=number + 1))
    counted = [property_id for property_id, prop in schema.items() if prop["type"] == "unique_id"]
    if not counted:
        return page
    return page.with_body(properties={**page.body["properties"], **dict.fromkeys(counted, number)})


def _parent(call: Call, parent: Any) -> Node | None:
    """Where a page is to stand; None is the workspace."""
    if parent is UNDEFINED or not isinstance(parent, dict):
        raise invalid_body("body.parent", "defined" if parent is UNDEFINED else "an object", parent)
    if parent.get("workspace") is True:
        return None
    for key, kind in (
        ("page_id", "page"),
        ("data_source_id", "data_source"),
        ("database_id", "database"),
        ("block_id", "block"),
    ):
        if key in parent:
            found = read_id(parent[key])
            if found is None:
                raise invalid_body(f"body.parent.{key}", "a valid uuid", parent[key])
            node = call.find(kind, found)
            return only_source(call, node) if kind == "database" else node
    raise invalid_body("body.parent.page_id", "defined", UNDEFINED)


def only_source(call: Call, database: Node) -> Node:
    sources = [source for source in call.store.children(database.id, "data_source") if not source.in_trash]
    if len(sources) != 1:
        raise invalid("Databases with multiple data sources are not supported in this API version.")
    return sources[0]


def retrieve(call: Call) -> Json:
    return render(call, find_page(call, call.id_of("page_id")))


def find_page(call: Call, page_id: str) -> Node:
    node = call.store.get(page_id)
    if node is not None and node.kind == "database":
        raise invalid(f"Provided ID {page_id} is a database, not a page. Use the retrieve database API instead.")
    return call.find("page", page_id)


def update(call: Call) -> Json:
    page = find_page(call, call.id_of("page_id"))
    return render(call, change(call, page))


def change(call: Call, page: Node) -> Node:
    """Apply a PATCH to the page and keep it."""
    wish = call.trash_wish()
    if page.in_trash and wish is not False:
        if wish is True and set(call.body) <= {"in_trash", "archived"}:
            return page
        raise archived_ancestor()
    refuse_trashed_ancestors(call.store, page)
    if wish and page.parent_id is None:
        raise invalid("Archiving workspace level pages via API not supported.")
    schema = schema_of(call, page)
    values, grown = accept_values(call, schema, call.body.get("properties", {}), "body.properties")
    if grown is not schema:
        source = call.find("data_source", str(page.parent_id))
        call.store.put(source.with_body(properties=grown))
    body = {**page.body, "properties": {**page.body["properties"], **values}}
    if "icon" in call.body:
        body["icon"] = accept_icon(call, call.body["icon"], "body.icon")
    if "cover" in call.body:
        body["cover"] = accept_cover(call, call.body["cover"], "body.cover")
    if "is_locked" in call.body:
        body["is_locked"] = bool(call.body["is_locked"])
    changed = call.edited(
        page,
        body=body,
        in_trash=page.in_trash if wish is None else wish,
    )
    call.store.put(changed)
    if call.body.get("erase_content") is True:
        empty_page(call, changed)
    mirror_relations(call, changed, page.body["properties"])
    return changed


def move(call: Call) -> Json:
    page = find_page(call, call.id_of("page_id"))
    if page.in_trash:
        raise archived_ancestor()
    parent = _parent(call, call.body.get("parent", UNDEFINED))
    above: Node | None = parent
    while above is not None:
        if above.id == page.id:
            raise invalid("A page cannot be moved into itself.")
        above = call.store.get(above.parent_id)
    before = schema_of(call, page)
    after: Schema = parent.body["properties"] if parent is not None and parent.kind == "data_source" else TITLE_ONLY
    names = {
        before[i]["name"]: (i, value) for i, value in page.body["properties"].items() if i in before and i != "title"
    }
    values: Json = {"title": page.body["properties"].get("title", [])}
    for name, (old_id, value) in names.items():
        new_id_ = find_property(after, name)
        if new_id_ is not None and after[new_id_] == before[old_id]:
            values[new_id_] = value
    parent_id = parent.id if parent else None
    moved = call.edited(
        page.with_body(properties=values),
        parent_id=parent_id,
        position=call.store.place(parent_id),
    )
    return render(call, call.store.put(moved))


def render(call: Call, page: Node) -> Json:
    schema = schema_of(call, page)
    only = wanted_properties(call, schema)
    body = page.body
    shown: Json = {
        "object": "page",
        "id": page.id,
        "created_time": minute_stamp(page.created_at),
        "last_edited_time": minute_stamp(page.edited_at),
        "created_by": partial(page.created_by),
        "last_edited_by": partial(page.edited_by),
        "cover": render_cover(call, body.get("cover")),
        "icon": render_icon(call, body.get("icon")),
        "parent": render_parent(call, page),
        "in_trash": in_trash(call.store, page),
        "is_archived": bool(body.get("is_archived")),
        "is_locked": bool(body.get("is_locked")),
        "properties": render_values(call, page, schema, only),
        "url": page_url(page.id, title_of(body, call.board)),
        "public_url": None,
    }
    if call.says_archived:
        shown["archived"] = shown["in_trash"]
    return shown


def wanted_properties(call: Call, schema: Schema) -> frozenset[str] | None:
    """What `filter_properties` asks for; unknown ids are refused."""
    asked = [*call.query.get("filter_properties", ()), *call.query.get("filter_properties[]", ())]
    if not asked:
        return None
    found = set()
    for key in asked:
        property_id = find_property(schema, key)
        if property_id is None:
            raise invalid(f"Could not find property with name or id: {key}")
        found.add(property_id)
    return frozenset(found)
