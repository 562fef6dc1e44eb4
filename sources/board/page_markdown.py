"""A page's content as Markdown: /v1/pages/{page_id}/markdown, and the async tasks such writes may become."""

from __future__ import annotations

import re
import secrets
from typing import Any

from sources.board.blocks import empty_page, keep_blocks, live_children, touch
from sources.board.call import Accepted, Call, Json, refuse_trashed_ancestors
from sources.board.errors import UNDEFINED, archived_ancestor, invalid, invalid_body
from sources.board.ids import page_url
from sources.board.markdown import from_markdown, to_markdown
from sources.board.pages import find_page
from sources.board.richtext import plain, title_of
from sources.board.store import Node
from sources.board.times import whole_stamp

_Tree = tuple[str, Json, list[Any]]
POLL_SECONDS = 2


def retrieve(call: Call) -> Json:
    page_id = call.id_of("page_id")
    node = call.store.get(page_id)
    if node is None or node.kind != "block":
        node = find_page(call, page_id)
    return _render(call, node)


def update(call: Call) -> Json:
    page = find_page(call, call.id_of("page_id"))
    if page.in_trash:
        raise archived_ancestor()
    refuse_trashed_ancestors(call.store, page)
    kind = call.body.get("type", UNDEFINED)
    if not isinstance(kind, str) or kind not in _COMMANDS:
        raise invalid_body("body.type", " or ".join(f'`"{word}"`' for word in _COMMANDS), kind)
    command = call.body.get(kind, UNDEFINED)
    if not isinstance(command, dict):
        raise invalid_body(f"body.{kind}", "defined", command)
    _COMMANDS[kind](call, page, command)
    touch(call, page)
    result = _render(call, page)
    return _as_task(call, result) if call.body.get("allow_async") is True else result


def _text(command: Json, key: str, path: str) -> str:
    value = command.get(key, UNDEFINED)
    if not isinstance(value, str):
        raise invalid_body(f"body.{path}.{key}", "defined", value)
    return value


def _insert(call: Call, page: Node, command: Json) -> None:
    blocks = from_markdown(_text(command, "content", "insert_content"))
    position = command.get("position") or {}
    if command.get("after") is not None:
        before = page_markdown(call, page)
        _, end = _range(before, _text(command, "after", "insert_content"))
        rewrite(call, page, before[:end] + "\n" + command["content"] + before[end:])
        return
    keep_blocks(call, page, blocks, "body.insert_content", first=position.get("type") == "start")


def _replace(call: Call, page: Node, command: Json) -> None:
    rewrite(call, page, _text(command, "new_str", "replace_content"))


def _replace_range(call: Call, page: Node, command: Json) -> None:
    before = page_markdown(call, page)
    start, end = _range(before, _text(command, "content_range", "replace_content_range"))
    rewrite(call, page, before[:start] + _text(command, "content", "replace_content_range") + before[end:])


def _update(call: Call, page: Node, command: Json) -> None:
    text = page_markdown(call, page)
    for number, change in enumerate(command.get("content_updates") or ()):
        path = f"update_content.content_updates[{number}]"
        old, new = _text(change, "old_str", path), _text(change, "new_str", path)
        found = text.count(old)
        if not found:
            raise invalid(f"Could not find the content to replace: {old}")
        if found > 1 and not change.get("replace_all_matches"):
            raise invalid(
                f"Found {found} matches of the content to replace. Set replace_all_matches or give more context."
            )
        text = text.replace(old, new)
    rewrite(call, page, text)


_COMMANDS = {
    "insert_content": _insert,
    "replace_content": _replace,
    "replace_content_range": _replace_range,
    "update_content": _update,
}


def _range(text: str, selection: str) -> tuple[int, int]:
    """Where a selection of the form `start text...end text` stands."""
    start, dots, end = selection.partition("...")
    pattern = re.escape(start) + (r".*?" + re.escape(end) if dots else "")
    match = re.search(pattern, text, re.DOTALL)
    if match is None:
        raise invalid(f"Could not find the selected content: {selection}")
    return match.span()


def rewrite(call: Call, page: Node, text: str) -> None:
    """Child pages and databases stay: their lines are taken out of the new text."""
    kept = re.sub(r"(?m)^\s*<(page|database) url=.*$", "", text)
    empty_page(call, page)
    keep_blocks(call, page, from_markdown(kept), "body.content")


def page_markdown(call: Call, node: Node) -> str:
    return to_markdown(_tree(call, node), lambda segment: plain([segment], call.board))


def _tree(call: Call, node: Node) -> list[_Tree]:
    found: list[_Tree] = []
    for child in live_children(call, node):
        if child.kind == "block":
            found.append((child.body["type"], child.body["content"], _tree(call, child)))
        else:
            content = {"title": title_of(child.body, call.board), "url": page_url(child.id)}
            found.append((f"child_{child.kind}", content, []))
    return found


def _render(call: Call, node: Node) -> Json:
    return {
        "object": "page_markdown",
        "id": node.id,
        "markdown": page_markdown(call, node),
        "truncated": False,
        "unknown_block_ids": [],
    }


def _as_task(call: Call, result: Json) -> Json:
    task = call.store.put(
        call.new(
            "async_task",
            "async_tasks",
            {"result": result, "operation": "PATCH /v1/pages/:page_id/markdown"},
            node_id=f"task_{secrets.token_hex(16)}",
        )
    )
    shown = _render_task(call, task, "queued")
    shown["poll_after_seconds"] = POLL_SECONDS
    return Accepted(shown)


def retrieve_task(call: Call) -> Json:
    """The work was done before the task was answered, so a task that is looked up has succeeded."""
    task = call.store.get(call.params["task_id"])
    if task is None or task.kind != "async_task":
        raise call.missing("async_task", call.params["task_id"])
    return _render_task(call, task, "succeeded") | {"result": task.body["result"]}


def _render_task(call: Call, task: Node, status: str) -> Json:
    return {
        "object": "async_task",
        "id": task.id,
        "status": status,
        "status_url": f"{call.base_url}/v1/async_tasks/{task.id}",
        "created_time": whole_stamp(task.created_at),
        "operation": {"surface": "rest", "name": task.body["operation"]},
    }
