"""What a change of the board is to Notion's webhooks. Events hold ids, never values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sources.board.ids import encoded
from sources.board.store import Changes, Node


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    entity_id: str
    entity_type: str
    author_id: str
    data: dict[str, Any] = field(default_factory=dict)


def events_of(changes: Changes) -> Iterator[Event]:
    """One transaction may be several: a page that is moved and edited is both."""
    rewritten: set[str] = set()
    for before, after in changes.values():
        node = after or before
        if node is None:
            continue
        match node.kind:
            case "page":
                yield from _page(before, after)
            case "data_source":
                yield from _data_source(before, after)
            case "comment" if before is None:
                yield Event("comment.created", node.id, "comment", node.edited_by, {"page_id": node.parent_id})
            case "block":
                # Told once for all blocks below one object.
                if node.parent_id is not None and node.parent_id not in rewritten:
                    rewritten.add(node.parent_id)
                    yield Event("page.content_updated", node.parent_id, "page", node.edited_by)


def _page(before: Node | None, after: Node | None) -> Iterator[Event]:
    if after is None or (before is not None and after.in_trash and not before.in_trash):
        yield _of("page.deleted", after or before)
        return
    if before is None:
        yield _of("page.created", after)
        return
    if before.in_trash and not after.in_trash:
        yield _of("page.undeleted", after)
    if before.parent_id != after.parent_id:
        yield _of("page.moved", after)
    was, now = before.body["properties"], after.body["properties"]
    changed = [encoded(i) for i in {**was, **now} if was.get(i) != now.get(i)]
    if changed:
        yield _of("page.properties_updated", after, updated_properties=changed)


def _data_source(before: Node | None, after: Node | None) -> Iterator[Event]:
    if after is None or (before is not None and after.in_trash and not before.in_trash):
        yield _of("data_source.deleted", after or before)
    elif before is None:
        yield _of("data_source.created", after)
    elif before.body["properties"] != after.body["properties"]:
        was, now = before.body["properties"], after.body["properties"]
        changed = [
            {"id": encoded(i), "name": (now.get(i) or was[i])["name"], "action": _action(was.get(i), now.get(i))}
            for i in {**was, **now}
            if was.get(i) != now.get(i)
        ]
        yield _of("data_source.schema_updated", after, updated_properties=changed)


def _action(was: object, now: object) -> str:
    return "created" if was is None else "deleted" if now is None else "updated"


def _of(type_: str, node: Node | None, **data: Any) -> Event:
    assert node is not None  # noqa: S101 - one of the two is there
    return Event(type_, node.id, node.kind, node.edited_by, {"parent_id": node.parent_id, **data})
