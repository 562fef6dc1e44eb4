"""Comments: /v1/comments. They hang on a page or a block, in discussions."""

from __future__ import annotations

from typing import Any

from sources.board.call import Call, Json, refuse_trashed_ancestors
from sources.board.errors import UNDEFINED, archived_ancestor, invalid_body, invalid_query
from sources.board.ids import new_id, read_id
from sources.board.markdown import inline
from sources.board.paging import page_of
from sources.board.richtext import accept as accept_text
from sources.board.richtext import render as render_text
from sources.board.store import Node
from sources.board.times import minute_stamp
from sources.board.users import partial


def create(call: Call) -> Json:
    text = _text(call)
    if "discussion_id" in call.body:
        discussion_id = read_id(call.body["discussion_id"])
        if discussion_id is None:
            raise invalid_body("body.discussion_id", "a valid uuid", call.body["discussion_id"])
        first = next((c for c in call.store.of_kind("comment") if c.body["discussion_id"] == discussion_id), None)
        if first is None:
            raise call.missing("discussion", discussion_id)
        parent = call.store.get(first.parent_id)
    else:
        discussion_id = new_id()
        parent = _parent(call)
    if parent is None or parent.in_trash:
        raise archived_ancestor()
    refuse_trashed_ancestors(call.store, parent)
    body = {"text": text, "discussion_id": discussion_id, "display_name": _display_name(call)}
    return _render(call, add_comment(call, parent, body))


def add_comment(call: Call, parent: Node, body: Json) -> Node:
    return call.store.put(call.new("comment", parent.id, body))


def _parent(call: Call) -> Node:
    parent = call.body.get("parent", UNDEFINED)
    if not isinstance(parent, dict):
        raise invalid_body("body.parent", "defined", parent)
    for key, kind in (("page_id", "page"), ("block_id", "block")):
        if key in parent:
            found = read_id(parent[key])
            if found is None:
                raise invalid_body(f"body.parent.{key}", "a valid uuid", parent[key])
            return call.find(kind, found)
    raise invalid_body("body.parent.page_id", "defined", UNDEFINED)


def _text(call: Call) -> list[Json]:
    if isinstance(call.body.get("markdown"), str):
        return accept_text(inline(call.body["markdown"]), "body.markdown")
    if "rich_text" not in call.body:
        raise invalid_body("body.rich_text", "defined", UNDEFINED)
    return accept_text(call.body["rich_text"], "body.rich_text")


def _display_name(call: Call) -> Json:
    asked: Any = call.body.get("display_name")
    if isinstance(asked, dict) and asked.get("type") == "custom" and isinstance(asked.get("custom"), dict):
        return {"type": "custom", "resolved_name": str(asked["custom"].get("name"))}
    user = call.board.user(call.user_id)
    kind = "user" if user is not None and user.body["type"] == "person" else "integration"
    return {"type": kind, "resolved_name": user.body["name"] if user else None}


def list_comments(call: Call) -> Json:
    text = call.argument("block_id")
    block_id = read_id(text)
    if block_id is None:
        raise invalid_query("query.block_id", "a valid uuid", UNDEFINED if text is None else text)
    node = call.store.get(block_id)
    if node is None or node.kind not in ("page", "block"):
        raise call.missing("block", block_id)
    return page_of(call, [_render(call, comment) for comment in call.store.children(block_id, "comment")], "comment")


def retrieve(call: Call) -> Json:
    return _render(call, call.find("comment", call.id_of("comment_id")))


def update(call: Call) -> Json:
    comment = call.find("comment", call.id_of("comment_id"))
    changed = call.edited(comment.with_body(text=_text(call)))
    return _render(call, call.store.put(changed))


def delete(call: Call) -> Json:
    comment = call.find("comment", call.id_of("comment_id"))
    shown = _render(call, comment)
    call.store.remove(comment.id)
    return shown


def _render(call: Call, comment: Node) -> Json:
    parent = call.store.get(comment.parent_id)
    key = "block_id" if parent is not None and parent.kind == "block" else "page_id"
    return {
        "object": "comment",
        "id": comment.id,
        "parent": {"type": key, key: comment.parent_id},
        "discussion_id": comment.body["discussion_id"],
        "created_time": minute_stamp(comment.created_at),
        "last_edited_time": minute_stamp(comment.edited_at),
        "created_by": partial(comment.created_by),
        "rich_text": render_text(comment.body["text"], call.board),
        "display_name": comment.body["display_name"],
    }
