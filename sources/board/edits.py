"""What people do to a board in the middle of a run, as a fault that waits for its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sources.board import data_sources, pages
from sources.board.board import Board
from sources.board.call import NEWEST, Call
from sources.board.errors import NotionError
from sources.board.ids import PERSON_ID, read_id
from sources.board.schema import Schema, find_property
from sources.board.store import Node


def make_edit(board: Board, edit: Mapping[str, Any], object_ids: list[str]) -> None:
    """Raises NotionError where it cannot be done: there is no such column, or the call names no page."""
    what, column, old, new = edit["what"], edit["column"], edit["old"], edit["new"]
    with board.store.transaction():
        match what:
            case "trash_page":
                _change(board, _page(board, object_ids), in_trash=True)
            case "move_page":
                pages.move(_call(board, {"parent": {"data_source_id": old}}, page_id=_page(board, object_ids).id))
            case "trash_board":
                _alter(board, _source(board, object_ids), in_trash=True)
            case "rename_column":
                _alter(board, _source(board, object_ids), properties={old: {"name": new}})
            case "delete_column":
                _alter(board, _source(board, object_ids), properties={old: None})
            case "set_option":
                page = _page(board, object_ids)
                source = _source(board, object_ids)
                kind = source.body["properties"][_column(source, column)]["type"]
                _change(board, page, properties={column: {kind: {"name": old}}})
            case "rename_option":
                _rename_option(board, _source(board, object_ids), column, old, new)
            case "delete_option":
                source = _source(board, object_ids)
                prop = source.body["properties"][_column(source, column)]
                kept = [{"id": o["id"], "name": o["name"]} for o in prop["options"] if o["name"] != old]
                _alter(board, source, properties={column: {prop["type"]: {"options": kept}}})


def _rename_option(board: Board, source: Node, column: str, old: str, new: str) -> None:
    """Straight into the schema: people can do it in the app, and the API has no way to."""
    property_id = _column(source, column)
    schema: Schema = source.body["properties"]
    prop = schema[property_id]
    options = [{**o, "name": new} if o["name"] == old else o for o in prop["options"]]
    if options == prop["options"]:
        raise NotionError(400, "validation_error", f"The column {column} has no option {old}.")
    changed = source.with_body(properties={**schema, property_id: {**prop, "options": options}})
    board.store.put(_call(board, {}).edited(changed))


def _column(source: Node, name: str) -> str:
    property_id = find_property(source.body["properties"], name)
    if property_id is None:
        raise NotionError(400, "validation_error", f"There is no column {name}.")
    return property_id


def _change(board: Board, page: Node, **body: Any) -> None:
    pages.change(_call(board, body), page)


def _alter(board: Board, source: Node, **body: Any) -> None:
    data_sources.change(_call(board, body), source)


def _call(board: Board, body: dict[str, Any], **params: str) -> Call:
    return Call(board, PERSON_ID, NEWEST, params, {}, body, board.now())


def _page(board: Board, object_ids: list[str]) -> Node:
    return _named(board, object_ids, "page")


def _source(board: Board, object_ids: list[str]) -> Node:
    """The board that a call is about: it names it, or a page on it."""
    for object_id in object_ids:
        node = board.store.get(read_id(object_id))
        while node is not None:
            if node.kind == "data_source":
                return node
            node = board.store.get(node.parent_id)
    raise NotionError(400, "validation_error", "The call is about no board.")


def _named(board: Board, object_ids: list[str], kind: str) -> Node:
    for object_id in object_ids:
        node = board.store.get(read_id(object_id))
        if node is not None and node.kind == kind:
            return node
    raise NotionError(400, "validation_error", f"The call names no {kind}.")
