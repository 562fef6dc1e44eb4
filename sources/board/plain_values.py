"""The value of a column as filters, sorts and formulas compare it: names for options, moments for dates."""

from __future__ import annotations

from typing import Any

from sources.board import formulas, rollups
from sources.board.call import Call, Json
from sources.board.richtext import plain
from sources.board.schema import Schema, default_status, find_property
from sources.board.store import Node
from sources.board.times import Moment, floor_minute, read_moment

TEXT_TYPES = frozenset(("title", "rich_text", "url", "email", "phone_number"))


def plain_value(call: Call, page: Node, prop: Json, stored: Any, render: rollups.Render) -> Any:
    """Formulas and rollups come as they are answered: `{"type": kind, kind: value}`."""
    kind = prop["type"]
    if kind in ("title", "rich_text"):
        return plain(stored, call.board) if stored else ""
    if kind in TEXT_TYPES:
        return stored or ""
    if kind == "checkbox":
        return bool(stored)
    if kind == "date":
        return moment_of(stored)
    if kind in ("people", "files"):
        return stored or []
    if kind == "relation":
        return [i for i in stored or () if (other := call.store.get(i)) is not None and not other.in_trash]
    if kind == "created_time":
        return Moment(floor_minute(page.created_at), False)
    if kind == "last_edited_time":
        return Moment(floor_minute(page.edited_at), False)
    if kind == "created_by":
        return [page.created_by]
    if kind == "last_edited_by":
        return [page.edited_by]
    if kind in ("select", "status"):
        return _option_name(prop, stored)
    if kind == "multi_select":
        return [name for i in stored or () if (name := _option_name(prop, i)) is not None]
    if kind == "verification":
        return {"unverified": "none"}.get(stored["state"], stored["state"]) if stored else "none"
    if kind in ("formula", "rollup"):
        return render(call, page, "", prop, stored)
    return stored


def moment_of(date: Json | None) -> Moment | None:
    """Where a date value begins."""
    return None if date is None else read_moment(date["start"])


def _option_name(prop: Json, option_id: str | None) -> str | None:
    found = next((option for option in prop["options"] if option["id"] == option_id), None)
    if found is None and prop["type"] == "status":
        found = default_status(prop)
    return None if found is None else str(found["name"])


class FormulaRow:
    """What a formula sees of its page. Columns are read once, and a formula that needs itself is refused."""

    def __init__(self, call: Call, page: Node, schema: Schema, render: rollups.Render) -> None:
        self._call = call
        self._page = page
        self._schema = schema
        self._render = render
        self._values: dict[str, Any] = {}

    def formula(self, prop: Json, stored: Any) -> Json:
        return formulas.value_of(prop["expression"], stored, self.lookup, self._call.now)

    def lookup(self, name: str) -> Any:
        property_id = find_property(self._schema, name)
        if property_id is None:
            raise formulas.FormulaError(f"no column {name}")
        if property_id not in self._values:
            self._values[property_id] = _BEING_READ
            self._values[property_id] = self._read(property_id)
        value = self._values[property_id]
        if value is _BEING_READ:
            raise formulas.FormulaError(f"{name} needs itself")
        return value

    def _read(self, property_id: str) -> Any:
        prop = self._schema[property_id]
        stored = self._page.body["properties"].get(property_id)
        if prop["type"] == "formula":
            return _inner(self.formula(prop, stored))
        value = plain_value(self._call, self._page, prop, stored, self._render)
        return _inner(value) if prop["type"] == "rollup" else value


_BEING_READ = object()


def _inner(shown: Json) -> Any:
    value = shown[shown["type"]]
    return moment_of(value) if shown["type"] == "date" else value
