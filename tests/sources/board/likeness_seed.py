"""Puts objects that recordings only mention onto a board: from recorded answers back to what the board keeps.

The ids stay the recorded ones, so a seeded object needs no mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from sources.board.board import Board
from sources.board.store import Node

Json = dict[str, Any]
KINDS = ("page", "database", "data_source", "block", "comment", "user", "view", "file_upload")
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def is_full(item: Json) -> bool:
    """An answer's object with everything in it, not just its id."""
    kind = item.get("object")
    if kind == "user":
        return "name" in item
    if kind == "block":
        return item.get("type") in item
    return kind in KINDS and "created_time" in item


def objects_in(value: Any) -> Iterable[Json]:
    """Every full object of an answer, outermost first."""
    if isinstance(value, dict):
        if is_full(value):
            yield value
        for inner in value.values():
            yield from objects_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects_in(inner)


def parent_id(item: Json) -> str | None:
    parent = item.get("parent") or {}
    if "data_source_id" in parent and item.get("object") != "data_source":
        found = parent["data_source_id"]
    else:
        found = parent.get(parent.get("type", ""))
    return found if isinstance(found, str) else None


@dataclass
class Seeder:
    board: Board
    known: Mapping[str, Json]
    """Full objects by id: from this file first, then from all others."""
    listings: Mapping[str, list[str]]
    """Children of a page or block in the order in which they were listed."""
    done: set[str] = field(default_factory=set)
    stubs: set[str] = field(default_factory=set)

    def seed(self, object_id: str, kind: str | None = None) -> None:
        if object_id in self.done or self.board.store.get(object_id) is not None:
            return
        self.done.add(object_id)
        item = self.known.get(object_id)
        if item is None:
            if kind is None:
                return
            self.stubs.add(object_id)
            item = _stub(object_id, kind)
        above = None if item["object"] == "data_source" else parent_id(item)
        if above is not None:
            self.seed(above, (item.get("parent") or {}).get("type", "page_id").removesuffix("_id"))
        if item["object"] == "database":
            for source in item.get("data_sources", ()):
                self.seed(source["id"])
            if item.get("stub"):
                self.seed(f"{object_id[:-4]}d5d5", "data_source")
        if item["object"] == "data_source":
            self._seed_related(item)
        getattr(self, f"_{item['object']}")(item)

    def _seed_related(self, source: Json) -> None:
        for prop in source["properties"].values():
            if prop["type"] == "relation":
                self.seed(prop["relation"]["data_source_id"], "data_source")

    def _put(self, item: Json, kind: str, body: Json, above: str | None) -> None:
        created = _instant(item.get("created_time"))
        order = self.listings.get(above or "", [])
        position = float(order.index(item["id"])) if item["id"] in order else self.board.store.place(above)
        taken = {node.position for node in self.board.store.children(above)}
        while position in taken:
            position += 0.001
        author = (item.get("created_by") or {}).get("id", "00000000-0000-4000-8000-0000000000aa")
        node = Node(
            id=item["id"],
            kind=kind,
            parent_id=above,
            position=position,
            created_at=created,
            edited_at=_instant(item.get("last_edited_time")),
            created_by=author,
            edited_by=(item.get("last_edited_by") or {}).get("id", author),
            in_trash=bool(item.get("in_trash")),
            body=body,
        )
        with self.board.store.transaction():
            self.board.store.put(node)

    def _user(self, item: Json) -> None:
        body = {"type": item["type"], "name": item["name"], "avatar_url": item.get("avatar_url")}
        if item["type"] == "person" and item.get("person", {}).get("email"):
            body["email"] = item["person"]["email"]
        self._put(item, "user", body, "users")

    def _page(self, item: Json) -> None:
        above = parent_id(item)
        source = self.board.store.get(above)
        schema = source.body["properties"] if source is not None and source.kind == "data_source" else {}
        values = {}
        for prop in item["properties"].values():
            property_id = unquote(prop["id"])
            if property_id == "title" or property_id in schema:
                values[property_id] = _value(prop)
        for user in objects_in(item["properties"]):
            self.seed(user["id"])
        body = {
            "properties": values,
            "icon": _icon(item.get("icon")),
            "cover": _file(item.get("cover")),
            "is_locked": item.get("is_locked", False),
        }
        self._put(item, "page", body, above)

    def _database(self, item: Json) -> None:
        body = {
            "title": _text(item["title"]),
            "description": _text(item["description"]),
            "icon": _icon(item.get("icon")),
            "cover": _file(item.get("cover")),
            "is_inline": item["is_inline"],
            "is_locked": item.get("is_locked", False),
        }
        self._put(item, "database", body, parent_id(item))

    def _data_source(self, item: Json) -> None:
        above = item["parent"]["database_id"]
        if above in self.known:
            self.seed(above)
        if self.board.store.get(above) is None:
            parent = item.get("database_parent") or {"type": "workspace", "workspace": True}
            database = {**item, "object": "database", "id": above, "parent": parent, "data_sources": []}
            if parent_id(database) is not None:
                self.seed(str(parent_id(database)), "page")
            self._database(database)
        schema = {unquote(prop["id"]): _column(prop) for prop in item["properties"].values()}
        body = {"title": _text(item["title"]), "icon": _icon(item.get("icon")), "properties": schema, "next_number": 1}
        self._put(item, "data_source", body, above)

    def _block(self, item: Json) -> None:
        kind = item["type"]
        if kind in ("child_page", "child_database"):
            title = [{"type": "text", "text": {"content": item[kind]["title"]}}]
            stub = _stub(item["id"], kind.removeprefix("child_"))
            stub |= {key: item[key] for key in ("parent", "created_time", "last_edited_time", "created_by")}
            if kind == "child_page":
                stub["properties"]["title"]["title"] = title
                self._page(stub)
            else:
                self._database(stub | {"title": title})
            return
        self._put(item, "block", {"type": kind, "content": _content(kind, item[kind])}, parent_id(item))

    def _comment(self, item: Json) -> None:
        body = {
            "text": _text(item["rich_text"]),
            "discussion_id": item["discussion_id"],
            "display_name": item["display_name"],
        }
        self._put(item, "comment", body, parent_id(item))

    def _view(self, item: Json) -> None:
        body = {key: item.get(key) for key in ("type", "name", "filter", "sorts", "quick_filters", "configuration")}
        self._put(item, "view", body | {"data_source_id": item["data_source_id"]}, parent_id(item))

    def _file_upload(self, item: Json) -> None:
        body = {
            "mode": "single_part",
            "filename": item["filename"],
            "content_type": item["content_type"],
            "status": item["status"],
            "size": item["content_length"],
            "parts": None,
            "sent": 0,
            "attached": item["expiry_time"] is None,
        }
        if "file_import_result" in item:
            body["import_result"] = item["file_import_result"]
        self._put(item, "file_upload", body, "file_uploads")


def _stub(object_id: str, kind: str) -> Json:
    item: Json = {"object": kind, "id": object_id, "created_time": LONG_AGO.isoformat(), "stub": True}
    if kind == "page":
        item |= {"parent": {"workspace": True}, "properties": {"title": {"id": "title", "type": "title", "title": []}}}
    elif kind == "database":
        item |= {"parent": {"workspace": True}, "title": [], "description": [], "is_inline": False}
    elif kind == "data_source":
        item |= {
            "parent": {"type": "database_id", "database_id": f"{object_id[:-4]}dbdb"},
            "title": [],
            "description": [],
            "is_inline": False,
            "properties": {"Name": {"id": "title", "name": "Name", "type": "title", "title": {}}},
        }
    elif kind == "block":
        item |= {"parent": {"workspace": True}, "type": "paragraph", "paragraph": {"rich_text": [], "color": "default"}}
    return item


def _instant(text: str | None) -> datetime:
    return LONG_AGO if text is None else datetime.fromisoformat(text)


def _text(items: Iterable[Json]) -> list[Json]:
    kept = []
    for item in items:
        segment: Json = {}
        if item["type"] == "text":
            segment["content"] = item["text"]["content"]
            if item["text"].get("link"):
                segment["link"] = item["text"]["link"]["url"]
        elif item["type"] == "equation":
            segment["equation"] = item["equation"]["expression"]
        else:
            segment["mention"] = item["mention"]
        style = {k: v for k, v in item.get("annotations", {}).items() if v not in (False, "default")}
        if style:
            segment["style"] = style
        kept.append(segment)
    return kept


def _file(item: Json | None) -> Json | None:
    if item is None:
        return None
    kind = item["type"]
    kept: Json = {"external" if kind == "external" else "file": item[kind]["url"]}
    if "name" in item:
        kept["name"] = item["name"]
    return kept


def _icon(item: Json | None) -> Json | None:
    if item is None or item["type"] not in ("emoji", "custom_emoji", "icon"):
        return _file(item)
    return {item["type"]: item[item["type"]]}


def _value(prop: Json) -> Any:
    kind = prop["type"]
    value = prop[kind]
    if kind in ("title", "rich_text"):
        return _text(value)
    if kind in ("select", "status"):
        return value and value["id"]
    if kind in ("multi_select", "relation", "people"):
        return [item["id"] for item in value]
    if kind == "files":
        return [_file(item) for item in value]
    if kind == "date":
        return value and {"start": value["start"], "end": value["end"]}
    if kind == "unique_id":
        return value["number"]
    if kind in ("created_time", "last_edited_time", "created_by", "last_edited_by", "rollup", "button"):
        return None
    return value


def _column(prop: Json) -> Json:
    kind = prop["type"]
    kept: Json = {"name": prop["name"], "type": kind}
    if prop.get("description"):
        kept["description"] = prop["description"]
    details = prop[kind]
    if kind == "relation":
        kept |= {"data_source_id": details["data_source_id"], "dual": details["type"] == "dual_property"}
        if kept["dual"]:
            kept["synced"] = unquote(details["dual_property"]["synced_property_id"])
    elif kind == "rollup":
        kept |= {
            "relation": unquote(details["relation_property_id"]),
            "target": unquote(details["rollup_property_id"]),
            "function": details["function"],
        }
    elif kind in ("select", "multi_select", "status", "number", "formula", "unique_id"):
        kept |= details
    return kept


def _content(kind: str, shown: Json) -> Json:
    if kind == "link_to_page":
        return shown
    kept: Json = {}
    for name, value in shown.items():
        if name in ("rich_text", "caption"):
            kept[name] = _text(value)
        elif name == "cells":
            kept[name] = [_text(cell) for cell in value]
        elif name == "icon":
            kept[name] = _icon(value)
        elif name == "synced_from":
            kept[name] = value and value["block_id"]
        else:
            kept[name] = value
    if kind in ("image", "video", "audio", "pdf", "file"):
        kept = {"caption": kept.get("caption", []), "source": _file(shown)}
    return kept
