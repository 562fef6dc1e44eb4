"""Blocks: /v1/blocks. The content of pages; pages and databases appear among it as child_page and child_database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sources.board.block_types import TYPES, accept_content, render_content, type_of
from sources.board.call import PAGE_SIZE, Call, Json, in_trash, refuse_trashed_ancestors
from sources.board.errors import UNDEFINED, archived_ancestor, archived_block, invalid, invalid_body
from sources.board.ids import read_id
from sources.board.paging import envelope, page_of
from sources.board.parents import render_parent
from sources.board.richtext import ARRAY_ITEMS, title_of
from sources.board.store import Node
from sources.board.times import minute_stamp
from sources.board.users import partial

MAX_BLOCKS = 1000
DEEPEST = 100
"""Levels of blocks below a page. Notion documents none; whoever renders a page here descends level by level."""
CONTENT = ("block", "page", "database")


def find_block(call: Call, name: str = "block_id") -> Node:
    block_id = call.id_of(name)
    node = call.store.get(block_id)
    if node is None or node.kind not in CONTENT:
        raise call.missing("block", block_id)
    return node


def retrieve(call: Call) -> Json:
    return render(call, find_block(call))


def list_children(call: Call) -> Json:
    parent = find_block(call)
    blocks = [render(call, node) for node in live_children(call, parent)]
    return page_of(call, blocks, "block")


def live_children(call: Call, parent: Node) -> list[Node]:
    """A synced copy shows the children of its original."""
    if parent.kind == "database":
        return []
    if parent.kind == "block" and parent.body["content"].get("synced_from"):
        parent = call.store.get(parent.body["content"]["synced_from"]) or parent
    return [node for node in call.store.children(parent.id, *CONTENT) if not node.in_trash]


def append_children(call: Call) -> Json:
    """Answers the new blocks; when they were put between others, also those that follow them."""
    parent = find_block(call)
    if parent.in_trash:
        raise archived_block()
    refuse_trashed_ancestors(call.store, parent)
    if parent.kind == "database" or (parent.kind == "block" and not TYPES[parent.body["type"]].nests):
        raise invalid("Block does not support children.")
    children = call.body.get("children", UNDEFINED)
    if not isinstance(children, list):
        raise invalid_body("body.children", "defined" if children is UNDEFINED else "an array", children)
    after, first = _position(call, parent)
    made = append_blocks(call, parent, children, after=after, first=first)
    touch(call, parent)
    if after is not None or first:
        siblings = live_children(call, parent)
        made = siblings[siblings.index(made[0]) :][:PAGE_SIZE] if made else []
    return envelope([render(call, node) for node in made], None, "block")


def _position(call: Call, parent: Node) -> tuple[str | None, bool]:
    """The sibling to stand behind, and whether to stand first."""
    position = call.body.get("position")
    after = call.body.get("after")
    if after is not None and not call.says_archived:
        raise invalid_body("body.after", "not present", after)
    if position is not None:
        kind = position.get("type") if isinstance(position, dict) else None
        if kind == "start":
            return None, True
        if kind == "end":
            return None, False
        if kind != "after_block" or not isinstance(position.get("after_block"), dict):
            raise invalid_body("body.position.type", '`"after_block"`, `"start"`, or `"end"`', kind)
        after = position["after_block"].get("id")
    if after is None:
        return None, False
    sibling_id = read_id(after)
    sibling = call.store.get(sibling_id)
    if sibling_id is None:
        raise invalid_body("body.after", "a valid uuid", after)
    if sibling is None or sibling.parent_id != parent.id:
        raise invalid(f"Block {sibling_id} is not a child of the parent block.")
    return sibling_id, False


def append_blocks(
    call: Call, parent: Node, children: Any, *, after: str | None = None, first: bool = False
) -> list[Node]:
    """Check a tree of blocks against the limits of a request and keep it below `parent`. Returns the first level."""
    _check_size(children)
    return keep_blocks(call, parent, children, "body.children", after, first)


def keep_blocks(
    call: Call, parent: Node, children: Sequence[Any], path: str, after: str | None = None, first: bool = False
) -> list[Node]:
    if children and _depth(call, parent) >= DEEPEST:
        raise invalid(f"Blocks are nested more than {DEEPEST} levels deep.")
    made = []
    for number, item in enumerate(children):
        where = f"{path}[{number}]"
        kind = type_of(item, where)
        for word in ("archived", "in_trash", "has_children", "id", "parent"):
            if item.get(word) is not None and word in ("archived", "in_trash", "has_children"):
                raise invalid_body(f"{where}.{word}", "not present", item[word])
        node = call.store.put(
            call.new(
                "block",
                parent.id,
                {"type": kind, "content": accept_content(call, kind, item[kind], f"{where}.{kind}")},
                position=call.store.place(parent.id, after=after, first=first),
            )
        )
        made.append(node)
        after, first = node.id, False
        below = item[kind].get("children") or item.get("children")
        if below:
            if not TYPES[kind].nests:
                raise invalid_body(f"{where}.{kind}.children", "not present", below)
            keep_blocks(call, node, below, f"{where}.{kind}.children")
    return made


def _depth(call: Call, node: Node) -> int:
    """How many blocks stand between it, itself counted, and its page."""
    depth = 0
    above: Node | None = node
    while above is not None and above.kind == "block":
        depth += 1
        above = call.store.get(above.parent_id)
    return depth


def _check_size(children: Any) -> None:
    """At most 100 in an array and 1,000 in all."""
    total = 0
    level: list[tuple[Any, str]] = [(children, "body.children")]
    while level:
        items, path = level.pop()
        if not isinstance(items, list):
            raise invalid_body(path, "an array", items)
        if len(items) > ARRAY_ITEMS:
            raise invalid_body(f"{path}.length", f"≤ `{ARRAY_ITEMS}`", len(items))
        total += len(items)
        for number, item in enumerate(items):
            kind = type_of(item, f"{path}[{number}]")
            below = item[kind].get("children") or item.get("children")
            if below:
                level.append((below, f"{path}[{number}].{kind}.children"))
    if total > MAX_BLOCKS:
        raise invalid(f"Number of blocks in the request exceeds the limit of {MAX_BLOCKS}.")


def update(call: Call) -> Json:
    node = find_block(call)
    wish = call.trash_wish()
    if node.in_trash and wish is not False:
        if wish is True:
            return render(call, node)
        raise archived_block()
    refuse_trashed_ancestors(call.store, node)
    body = node.body
    if node.kind == "block":
        kind = body["type"]
        if kind in call.body:
            content = accept_content(call, kind, call.body[kind], f"body.{kind}", before=body["content"])
            body = {**body, "content": content}
        elif wish is None:
            other = next((key for key in call.body if key in TYPES), None)
            if other is not None:
                raise invalid(f"Provided block type {other} does not match the existing type {kind}.")
            raise invalid_body(f"body.{kind}", "defined", UNDEFINED)
    changed = call.store.put(
        call.edited(
            node,
            body=body,
            in_trash=node.in_trash if wish is None else wish,
        )
    )
    touch(call, changed)
    return render(call, changed)


def delete(call: Call) -> Json:
    node = find_block(call)
    if node.in_trash:
        raise archived_block()
    refuse_trashed_ancestors(call.store, node)
    if node.kind == "page" and node.parent_id is None:
        raise invalid("Archiving workspace level pages via API not supported.")
    changed = call.store.put(call.edited(node, in_trash=True))
    touch(call, changed)
    return render(call, changed)


def empty_page(call: Call, page: Node) -> None:
    """Put the content of a page, but no page or database in it, into the trash."""
    for node in call.store.children(page.id, "block"):
        if not node.in_trash:
            call.store.put(call.edited(node, in_trash=True))


def touch(call: Call, node: Node) -> None:
    """An edit below a page is an edit of the page around it."""
    while node.kind == "block":
        above = call.store.get(node.parent_id)
        if above is None:
            raise archived_ancestor()
        node = above
    if node.kind == "page" and not node.in_trash:
        call.store.put(call.edited(node))


def render(call: Call, node: Node) -> Json:
    shown: Json = {
        "object": "block",
        "id": node.id,
        "parent": render_parent(call, node),
        "created_time": minute_stamp(node.created_at),
        "last_edited_time": minute_stamp(node.edited_at),
        "created_by": partial(node.created_by),
        "last_edited_by": partial(node.edited_by),
        "has_children": bool(live_children(call, node)),
        "in_trash": in_trash(call.store, node),
    }
    if node.kind == "block":
        kind = node.body["type"]
        shown["type"] = kind
        shown[kind] = render_content(call, kind, node.body["content"])
    else:
        kind = f"child_{node.kind}"
        shown["type"] = kind
        shown[kind] = {"title": title_of(node.body, call.board) or ("New database" if node.kind == "database" else "")}
    if call.says_archived:
        shown["archived"] = shown["in_trash"]
    return shown
