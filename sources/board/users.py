"""People and integrations: /v1/users."""

from __future__ import annotations

from sources.board.board import Board
from sources.board.call import Call, Json
from sources.board.ids import WORKSPACE_ID
from sources.board.paging import page_of
from sources.board.store import Node

MAX_UPLOAD_BYTES = 5 * 1024 * 1024


def me(call: Call) -> Json:
    return _render(call, call.find("user", call.user_id))


def retrieve(call: Call) -> Json:
    return _render(call, call.find("user", call.id_of("user_id")))


def list_users(call: Call) -> Json:
    shown = [_render(call, node) for node in call.store.of_kind("user")]
    return page_of(call, shown, "user")


def _render(call: Call, node: Node) -> Json:
    """An integration sees more of itself than of the others."""
    shown = render_user(call.board, node.id)
    if node.id == call.user_id and node.body["type"] == "bot":
        shown["bot"] = {
            "owner": {"type": "workspace", "workspace": True},
            "workspace_name": call.board.workspace_name,
            "workspace_id": WORKSPACE_ID,
            "workspace_limits": {"max_file_upload_size_in_bytes": MAX_UPLOAD_BYTES},
        }
    elif node.body.get("email") and call.says_archived:
        shown["person"] = {"email": node.body["email"], "email_verified": True}
    return shown


def render_user(board: Board, user_id: str) -> Json:
    """A user as people properties and mentions show one."""
    node = board.user(user_id)
    if node is None:
        return {"object": "user", "id": user_id}
    shown: Json = {
        "object": "user",
        "id": node.id,
        "name": node.body["name"],
        "avatar_url": node.body.get("avatar_url"),
        "type": node.body["type"],
    }
    if node.body["type"] == "person":
        shown["person"] = {"email": node.body["email"]} if node.body.get("email") else {}
    else:
        shown["bot"] = {}
    return shown


def partial(user_id: str) -> Json:
    """A user as `created_by` and `last_edited_by` show one."""
    return {"object": "user", "id": user_id}
