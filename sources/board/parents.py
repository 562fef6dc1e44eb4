"""Where an object stands, as answers say it."""

from __future__ import annotations

from sources.board.call import Call, Json
from sources.board.store import Node


def render_parent(call: Call, node: Node) -> Json:
    parent = call.store.get(node.parent_id)
    if parent is None:
        return {"type": "workspace", "workspace": True}
    if parent.kind == "data_source":
        if call.legacy:
            return {"type": "database_id", "database_id": parent.parent_id}
        return {"type": "data_source_id", "data_source_id": parent.id, "database_id": parent.parent_id}
    key = f"{parent.kind}_id"
    return {"type": key, key: parent.id}
