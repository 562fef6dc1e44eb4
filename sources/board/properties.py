"""The values of a page's columns: how each type arrives, is kept, and is answered.

Rollups are in rollups.py, formulas in formulas.py, what filters compare in plain_values.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sources.board import rollups
from sources.board.call import Call, Json
from sources.board.checks import COLORS, check_color, check_text
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.files import accept_file, render_file
from sources.board.ids import encoded, read_id
from sources.board.plain_values import FormulaRow
from sources.board.richtext import ARRAY_ITEMS
from sources.board.richtext import accept as accept_text
from sources.board.richtext import render as render_text
from sources.board.schema import Schema, default_status, find_property, new_option
from sources.board.store import Node
from sources.board.times import minute_stamp, written_moment
from sources.board.users import render_user

TITLE_ONLY: Schema = {"title": {"name": "title", "type": "title"}}
"""The one property of a page that stands in no data source."""
URL_UNITS = 2000
SHORT_UNITS = 200


def schema_of(call: Call, page: Node) -> Schema:
    parent = call.store.get(page.parent_id)
    if parent is not None and parent.kind == "data_source":
        schema: Schema = parent.body["properties"]
        return schema
    return TITLE_ONLY


def accept_values(call: Call, schema: Schema, values: Any, path: str) -> tuple[Json, Schema]:
    """Values by property id, and the schema with the options that had to be made for them."""
    if not isinstance(values, dict):
        raise invalid_body(path, "an object", values)
    kept: Json = {}
    for key, value in values.items():
        property_id = find_property(schema, key)
        if property_id is None:
            if call.lenient:
                continue
            raise invalid(f"{key} is not a property that exists.")
        prop = schema[property_id]
        kind = prop["type"]
        raw = _unwrapped(prop, value, f"{path}.{key}")
        changed, stored = _ACCEPT[kind](call, prop, raw, f"{path}.{key}.{kind}")
        if changed is not prop:
            schema = {**schema, property_id: changed}
        kept[property_id] = stored
    return kept, schema


def _unwrapped(prop: Json, value: Any, path: str) -> Any:
    kind = prop["type"]
    if kind in ("title", "rich_text") and isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise invalid_body(path, "an object", value)
    if kind in value:
        return value[kind]
    raise invalid(f"{prop['name']} is expected to be {kind}.")


_Accepted: TypeAlias = tuple[Json, Any]


def _text(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    return prop, accept_text(raw, path)


def _number(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    if raw is not None and (isinstance(raw, bool) or not isinstance(raw, int | float)):
        raise invalid_body(path, "a number", raw)
    return prop, raw


def _checkbox(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    if not isinstance(raw, bool):
        raise invalid_body(path, "a boolean", raw)
    return prop, raw


def _short(limit: int) -> Callable[[Call, Json, Any, str], _Accepted]:
    def accept(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
        if raw is None or raw == "":
            return prop, None
        return prop, check_text(raw, path, limit)

    return accept


def _option(prop: Json, raw: Any, path: str) -> tuple[Json, str]:
    """The option's id, made in the schema when a select names one that it does not have."""
    if not isinstance(raw, dict) or not (raw.get("name") or raw.get("id")):
        raise invalid_body(f"{path}.name", "defined", UNDEFINED)
    by_id = next((o for o in prop["options"] if o["id"] == raw.get("id")), None)
    if by_id is not None:
        return prop, by_id["id"]
    if "name" not in raw:
        raise invalid(f'{_label(prop)} option with id "{raw["id"]}" does not exist.')
    name = check_text(raw["name"], f"{path}.name", SHORT_UNITS)
    known = next((o for o in prop["options"] if o["name"] == name), None)
    known = known or next((o for o in prop["options"] if o["name"].lower() == name.lower()), None)
    if known is not None:
        return prop, known["id"]
    if prop["type"] == "status":
        raise invalid(f'Status option "{name}" does not exist')
    option = new_option(name, prop["options"], path)
    if raw.get("color") is not None:
        option["color"] = check_color(raw["color"], f"{path}.color", COLORS)
    return {**prop, "options": [*prop["options"], option]}, option["id"]


def _label(prop: Json) -> str:
    return "Status" if prop["type"] == "status" else "Select"


def _select(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    return (prop, None) if raw is None else _option(prop, raw, path)


def _multi_select(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    chosen: list[str] = []
    for number, item in enumerate(_array(raw, path)):
        prop, option_id = _option(prop, item, f"{path}[{number}]")
        if option_id not in chosen:
            chosen.append(option_id)
    return prop, chosen


def _array(raw: Any, path: str) -> list[Any]:
    if not isinstance(raw, list):
        raise invalid_body(path, "an array", raw)
    if len(raw) > ARRAY_ITEMS:
        raise invalid_body(f"{path}.length", f"≤ `{ARRAY_ITEMS}`", len(raw))
    return raw


def _date(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    if raw is None:
        return prop, None
    if not isinstance(raw, dict) or not isinstance(raw.get("start"), str):
        raise invalid_body(f"{path}.start", "defined", UNDEFINED)
    zone = raw.get("time_zone")
    if zone is not None:
        check_text(zone, f"{path}.time_zone", SHORT_UNITS)
    start = written_moment(raw["start"], zone)
    if start is None:
        raise invalid_body(f"{path}.start", "a valid ISO 8601 date string", raw["start"])
    end = None
    if raw.get("end") is not None:
        end = written_moment(raw["end"], zone) if isinstance(raw["end"], str) else None
        if end is None:
            raise invalid_body(f"{path}.end", "a valid ISO 8601 date string", raw["end"])
    return prop, {"start": start, "end": end}


def _people(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    return prop, [_reference(item, f"{path}[{number}]") for number, item in enumerate(_array(raw, path))]


def _relation(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    pages = [_reference(item, f"{path}[{number}]") for number, item in enumerate(_array(raw, path))]
    for page_id in pages:
        call.find("page", page_id)
    return prop, list(dict.fromkeys(pages))


def _reference(item: Any, path: str) -> str:
    found = read_id(item.get("id")) if isinstance(item, dict) else None
    if found is None:
        raise invalid_body(f"{path}.id", "a valid uuid", item.get("id", UNDEFINED) if isinstance(item, dict) else item)
    return found


def _files(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    return prop, [
        accept_file(call, item, f"{path}[{number}]", named=True) for number, item in enumerate(_array(raw, path))
    ]


def _as_is(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    return prop, raw


def _read_only(call: Call, prop: Json, raw: Any, path: str) -> _Accepted:
    raise invalid(f"{prop['name']} cannot be updated: {prop['type']} properties are read-only.")


_ACCEPT: Mapping[str, Callable[[Call, Json, Any, str], _Accepted]] = {
    "title": _text,
    "rich_text": _text,
    "number": _number,
    "checkbox": _checkbox,
    "url": _short(URL_UNITS),
    "email": _short(SHORT_UNITS),
    "phone_number": _short(SHORT_UNITS),
    "select": _select,
    "status": _select,
    "multi_select": _multi_select,
    "date": _date,
    "people": _people,
    "relation": _relation,
    "files": _files,
    "place": _as_is,
    "verification": _as_is,
    "created_time": _read_only,
    "created_by": _read_only,
    "last_edited_time": _read_only,
    "last_edited_by": _read_only,
    "unique_id": _read_only,
    "formula": _read_only,
    "rollup": _read_only,
    "button": _read_only,
}


def render_values(call: Call, page: Node, schema: Schema, only: frozenset[str] | None = None) -> Json:
    """All columns by name, or those whose ids are in `only`."""
    values = page.body["properties"]
    shown: Json = {}
    for property_id, prop in schema.items():
        if only is not None and property_id not in only:
            continue
        kind = prop["type"]
        stored = values.get(property_id)
        value = {"id": encoded(property_id), "type": kind, kind: render_value(call, page, property_id, prop, stored)}
        if kind == "relation":
            value["has_more"] = len(stored or ()) > RELATIONS_SHOWN
        shown[prop["name"]] = value
    return shown


def render_value(call: Call, page: Node, property_id: str, prop: Json, stored: Any) -> Any:
    return _RENDER[prop["type"]](call, page, prop, stored)


def option_named(prop: Json, option_id: str | None) -> Json | None:
    """A chosen option as pages show it; None when it was taken out of the schema."""
    found = next((o for o in prop["options"] if o["id"] == option_id), None)
    return None if found is None else {"id": found["id"], "name": found["name"], "color": found["color"]}


def _show_text(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return render_text(stored or (), call.board)


def _show_plain(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return stored


def _show_select(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return option_named(prop, stored)


def _show_status(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    found = option_named(prop, stored)
    if found is not None:
        return found
    default = default_status(prop)
    return None if default is None else option_named(prop, default["id"])


def _show_multi_select(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    found = [option_named(prop, option_id) for option_id in stored or ()]
    return [option for option in found if option is not None]


def _show_date(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return None if stored is None else {"start": stored["start"], "end": stored["end"], "time_zone": None}


def _show_people(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return [render_user(call.board, user_id) for user_id in stored or ()]


def _show_relation(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    pages = [
        page_id for page_id in stored or () if (found := call.store.get(page_id)) is not None and not found.in_trash
    ]
    return [{"id": page_id} for page_id in pages[:RELATIONS_SHOWN]]


def _show_files(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return [render_file(call, file) for file in stored or ()]


def _show_formula(call: Call, page: Node, prop: Json, stored: Any) -> Any:
    return FormulaRow(call, page, schema_of(call, page), render_value).formula(prop, stored)


RELATIONS_SHOWN = 25
"""A page shows this many references; the rest is read through its property item."""

_RENDER: Mapping[str, Callable[[Call, Node, Json, Any], Any]] = {
    "title": _show_text,
    "rich_text": _show_text,
    "number": _show_plain,
    "checkbox": lambda call, page, prop, stored: bool(stored),
    "url": _show_plain,
    "email": _show_plain,
    "phone_number": _show_plain,
    "select": _show_select,
    "status": _show_status,
    "multi_select": _show_multi_select,
    "date": _show_date,
    "people": _show_people,
    "relation": _show_relation,
    "files": _show_files,
    "place": _show_plain,
    "verification": lambda call, page, prop, stored: (
        stored or {"state": "unverified", "verified_by": None, "date": None}
    ),
    "created_time": lambda call, page, prop, stored: minute_stamp(page.created_at),
    "last_edited_time": lambda call, page, prop, stored: minute_stamp(page.edited_at),
    "created_by": lambda call, page, prop, stored: render_user(call.board, page.created_by),
    "last_edited_by": lambda call, page, prop, stored: render_user(call.board, page.edited_by),
    "unique_id": lambda call, page, prop, stored: {"prefix": prop["prefix"], "number": stored},
    "button": lambda call, page, prop, stored: {},
    "formula": _show_formula,
    "rollup": lambda call, page, prop, stored: rollups.value_of(call, page, prop, render_value),
}
