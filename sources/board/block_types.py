"""What each type of block holds: which fields it takes, keeps and answers. A new type is one row of TYPES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sources.board.call import Call, Json
from sources.board.checks import TEXT_COLORS, check_color
from sources.board.errors import UNDEFINED, invalid_body
from sources.board.files import accept_file, accept_icon, render_file, render_icon
from sources.board.ids import read_id
from sources.board.richtext import accept as accept_text
from sources.board.richtext import render as render_text

_Accept: TypeAlias = Callable[[Call, Any, str], Any]
_Render: TypeAlias = Callable[[Call, Any], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    accept: _Accept
    render: _Render
    default: Any = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class BlockType:
    fields: Mapping[str, _Field]
    nests: bool = False
    file: bool = False
    """Its content is one file besides the fields."""


def _color(call: Call, value: Any, path: str) -> Any:
    return check_color(value, path, TEXT_COLORS)


def _of_type(*types: type) -> _Accept:
    def accept(call: Call, value: Any, path: str) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise invalid_body(path, f"a {types[0].__name__}", value)
        return value

    return accept


def _shown(call: Call, value: Any) -> Any:
    return value


def _accept_cells(call: Call, value: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise invalid_body(path, "an array", value)
    return [accept_text(cell, f"{path}[{number}]") for number, cell in enumerate(value)]


def _accept_synced_from(call: Call, value: Any, path: str) -> Any:
    if value is None:
        return None
    block_id = read_id(value.get("block_id")) if isinstance(value, dict) else None
    if block_id is None:
        raise invalid_body(f"{path}.block_id", "a valid uuid", value)
    return block_id


_TEXT = _Field(lambda call, value, path: accept_text(value, path), lambda call, kept: render_text(kept, call.board), ())
_RICH_TEXT = _Field(_TEXT.accept, _TEXT.render, (), required=True)
_COLOR = _Field(_color, _shown, "default")
_FALSE = _Field(_of_type(bool), _shown, False)
_URL = _Field(_of_type(str), _shown, required=True)
_ICON = _Field(accept_icon, render_icon)
_NO_ICON = _Field(accept_icon, render_icon)
_NUMBER = _Field(_of_type(int, float), _shown)

_STYLED = {"rich_text": _RICH_TEXT, "color": _COLOR}
_MEDIA = {"caption": _TEXT}

TYPES: Mapping[str, BlockType] = {
    "paragraph": BlockType({"rich_text": _RICH_TEXT, "icon": _NO_ICON, "color": _COLOR}, nests=True),
    "heading_1": BlockType({"rich_text": _RICH_TEXT, "is_toggleable": _FALSE, "color": _COLOR}, nests=True),
    "heading_2": BlockType({"rich_text": _RICH_TEXT, "is_toggleable": _FALSE, "color": _COLOR}, nests=True),
    "heading_3": BlockType({"rich_text": _RICH_TEXT, "is_toggleable": _FALSE, "color": _COLOR}, nests=True),
    "heading_4": BlockType({"rich_text": _RICH_TEXT, "is_toggleable": _FALSE, "color": _COLOR}, nests=True),
    "bulleted_list_item": BlockType(_STYLED, nests=True),
    "numbered_list_item": BlockType(_STYLED, nests=True),
    "quote": BlockType(_STYLED, nests=True),
    "toggle": BlockType(_STYLED, nests=True),
    "to_do": BlockType({"rich_text": _RICH_TEXT, "checked": _FALSE, "color": _COLOR}, nests=True),
    "callout": BlockType(
        {"rich_text": _RICH_TEXT, "icon": _Field(_ICON.accept, _ICON.render, {"emoji": "💡"}), "color": _COLOR},
        nests=True,
    ),
    "code": BlockType(
        {"caption": _TEXT, "rich_text": _RICH_TEXT, "language": _Field(_of_type(str), _shown, "plain text")}
    ),
    "template": BlockType({"rich_text": _RICH_TEXT}, nests=True),
    "equation": BlockType({"expression": _Field(_of_type(str), _shown, required=True)}),
    "image": BlockType(_MEDIA, file=True),
    "video": BlockType(_MEDIA, file=True),
    "audio": BlockType(_MEDIA, file=True),
    "pdf": BlockType(_MEDIA, file=True),
    "file": BlockType(_MEDIA, file=True),
    "embed": BlockType({"caption": _TEXT, "url": _URL}),
    "bookmark": BlockType({"caption": _TEXT, "url": _URL}),
    "link_preview": BlockType({"url": _URL}),
    "divider": BlockType({}),
    "breadcrumb": BlockType({}),
    "table_of_contents": BlockType({"color": _COLOR}),
    "column_list": BlockType({}, nests=True),
    "column": BlockType({"width_ratio": _NUMBER}, nests=True),
    "tab": BlockType({}, nests=True),
    "table": BlockType(
        {
            "table_width": _Field(_of_type(int), _shown, required=True),
            "has_column_header": _FALSE,
            "has_row_header": _FALSE,
        },
        nests=True,
    ),
    "table_row": BlockType(
        {
            "cells": _Field(
                _accept_cells, lambda call, kept: [render_text(cell, call.board) for cell in kept], (), required=True
            )
        }
    ),
    "link_to_page": BlockType({}),
    "synced_block": BlockType(
        {
            "synced_from": _Field(
                _accept_synced_from,
                lambda call, kept: None if kept is None else {"type": "block_id", "block_id": kept},
            )
        },
        nests=True,
    ),
    "unsupported": BlockType({"block_type": _Field(_of_type(str), _shown)}),
}
_LINKS = ("page_id", "database_id", "comment_id")
_HIDDEN_WHEN_UNSET = frozenset(("width_ratio",))


def type_of(item: Any, path: str) -> str:
    """The type of a block in a request, from `type` or from the one key that names a type."""
    if not isinstance(item, dict):
        raise invalid_body(path, "an object", item)
    kind = item.get("type") or next((key for key in item if key in TYPES), None)
    if not isinstance(kind, str) or kind not in TYPES or not isinstance(item.get(kind), dict):
        name = kind if isinstance(kind, str) else "paragraph"
        raise invalid_body(f"{path}.{name}", "defined", item.get(name, UNDEFINED))
    return kind


def accept_content(call: Call, kind: str, value: Any, path: str, *, before: Json | None = None) -> Json:
    """`before` is what the block holds already: fields that are not named stay."""
    if not isinstance(value, dict):
        raise invalid_body(path, "an object", value)
    block_type = TYPES[kind]
    kept: Json = dict(before or {})
    for name, rule in block_type.fields.items():
        if name in value:
            kept[name] = rule.accept(call, value[name], f"{path}.{name}")
        elif rule.required and before is None:
            raise invalid_body(f"{path}.{name}", "defined", UNDEFINED)
    if block_type.file and (before is None or {"external", "file_upload", "file"} & value.keys()):
        kept["source"] = accept_file(call, value, path, named=kind == "file")
    elif kind == "file" and isinstance(value.get("name"), str):
        kept["source"] = {**kept["source"], "name": value["name"]}
    if kind == "link_to_page":
        kept = _accept_link(value, path)
    return kept


def _accept_link(value: Json, path: str) -> Json:
    for key in _LINKS:
        if key in value:
            target = read_id(value[key])
            if target is None:
                raise invalid_body(f"{path}.{key}", "a valid uuid", value[key])
            return {"type": key, key: target}
    raise invalid_body(f"{path}.page_id", "defined", UNDEFINED)


def render_content(call: Call, kind: str, kept: Json) -> Json:
    if kind == "link_to_page":
        return kept
    block_type = TYPES[kind]
    shown: Json = {}
    for name, rule in block_type.fields.items():
        value = kept.get(name, rule.default)
        if value is None and name in _HIDDEN_WHEN_UNSET:
            continue
        shown[name] = rule.render(call, value)
    if block_type.file:
        shown |= render_file(call, kept["source"])
    return shown
