"""Two-way relations: what is written in one column appears in its mirror on the other pages."""

from __future__ import annotations

from collections.abc import Sequence

from sources.board.call import Call, Json
from sources.board.ids import new_property_id
from sources.board.properties import schema_of
from sources.board.store import Node


def mirror_relations(call: Call, page: Node, before: Json) -> None:
    """Bring the mirrors in line with the page's relations, which were `before`."""
    for property_id, prop in schema_of(call, page).items():
        if prop["type"] != "relation" or not prop.get("synced"):
            continue
        old = set(before.get(property_id) or ())
        new = set(page.body["properties"].get(property_id) or ())
        for other_id in old ^ new:
            other = call.store.get(other_id)
            if other is None:
                continue
            values = other.body["properties"]
            held = [i for i in values.get(prop["synced"]) or () if i != page.id]
            if other_id in new:
                held.append(page.id)
            call.store.put(other.with_body(properties={**values, prop["synced"]: held}))


def add_mirrors(call: Call, source: Node, wanted: Sequence[tuple[str, Json]]) -> None:
    """Make the other column of each new two-way relation of `source` and tie the two together."""
    for property_id, details in wanted:
        current = call.find("data_source", source.id)
        schema = current.body["properties"]
        relation = schema[property_id]
        other = call.find("data_source", relation["data_source_id"])
        mirror_id = new_property_id()
        while mirror_id in other.body["properties"]:
            mirror_id = new_property_id()
        title = "".join(segment.get("content", "") for segment in current.body["title"]) or "Untitled"
        name = str(details.get("synced_property_name") or f"Related to {title} ({relation['name']})")
        taken = {kept["name"] for kept in other.body["properties"].values()} | (
            {kept["name"] for kept in schema.values()} if other.id == current.id else set()
        )
        while name in taken:
            name += " 1"
        mirror = {"name": name, "type": "relation", "data_source_id": source.id, "dual": True, "synced": property_id}
        tied = {**schema, property_id: {**relation, "synced": mirror_id}}
        if other.id == current.id:
            call.store.put(current.with_body(properties={**tied, mirror_id: mirror}))
        else:
            call.store.put(current.with_body(properties=tied))
            call.store.put(other.with_body(properties={**other.body["properties"], mirror_id: mirror}))
