"""The filter language of a query: compiled once against the schema, then asked of every page.

Reference: the filter types of the official JavaScript client. What a filter names wrongly is refused in Notion's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sources.board.call import Call, Json
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.ids import read_id
from sources.board.plain_values import TEXT_TYPES, moment_of, plain_value
from sources.board.properties import render_value
from sources.board.rollups import related_values
from sources.board.schema import OPTION_TYPES, Schema, default_status, find_property
from sources.board.store import Node
from sources.board.times import Moment, add_months, floor_minute, read_moment

Predicate: TypeAlias = Callable[[Node], bool]
Check: TypeAlias = Callable[[Any], bool]
"""A condition on one value, in the plain form `_values` gives it."""

MAX_DEPTH = 2
MAX_CONDITIONS = 100
_KINDS = (
    TEXT_TYPES
    | OPTION_TYPES
    | {"number", "checkbox", "date", "people", "files", "relation", "formula", "unique_id", "rollup", "verification"}
    | {"created_by", "created_time", "last_edited_by", "last_edited_time"}
)


@dataclass(frozen=True, slots=True)
class _Scope:
    call: Call
    schema: Schema


def compile_filter(call: Call, schema: Schema, condition: Any) -> Predicate:
    return _compile(_Scope(call, schema), condition, "body.filter", 0)


def _compile(scope: _Scope, condition: Any, path: str, depth: int) -> Predicate:
    if not isinstance(condition, dict):
        raise invalid_body(path, "an object", condition)
    for word, combine in (("and", all), ("or", any)):
        if word in condition:
            parts = condition[word]
            if not isinstance(parts, list):
                raise invalid_body(f"{path}.{word}", "an array", parts)
            if len(parts) > MAX_CONDITIONS:
                raise invalid_body(f"{path}.{word}.length", f"≤ `{MAX_CONDITIONS}`", len(parts))
            if depth >= MAX_DEPTH:
                raise invalid_body(f"{path}.{word}", "not present", parts)
            checks = [_compile(scope, part, f"{path}.{word}[{number}]", depth + 1) for number, part in enumerate(parts)]
            return _combined(combine, checks)
    if "timestamp" in condition:
        return _compile_timestamp(scope, condition, path)
    return _compile_property(scope, condition, path)


def _combined(combine: Callable[[Any], bool], checks: list[Predicate]) -> Predicate:
    if not checks:
        return lambda page: True
    return lambda page: combine(check(page) for check in checks)


def _compile_timestamp(scope: _Scope, condition: Json, path: str) -> Predicate:
    which = condition["timestamp"]
    if which not in ("created_time", "last_edited_time"):
        raise invalid_body(f"{path}.timestamp", '`"created_time"` or `"last_edited_time"`', which)
    if not isinstance(condition.get(which), dict):
        raise invalid_body(f"{path}.{which}", "defined", condition.get(which, UNDEFINED))
    check = _date_check(condition[which], f"{path}.{which}", scope.call.now)
    if which == "created_time":
        return lambda page: check(Moment(floor_minute(page.created_at), False))
    return lambda page: check(Moment(floor_minute(page.edited_at), False))


def _compile_property(scope: _Scope, condition: Json, path: str) -> Predicate:
    name = condition.get("property", UNDEFINED)
    if not isinstance(name, str):
        raise invalid_body(f"{path}.property" if name is not UNDEFINED else f"{path}.or", "defined", name)
    kind = next((key for key in condition if key in _KINDS and key != "property"), None)
    if kind is None or not isinstance(condition[kind], dict):
        raise invalid_body(f"{path}.{kind or 'title'}", "defined", condition.get(kind or "", UNDEFINED))
    property_id = find_property(scope.schema, name)
    if property_id is None:
        raise invalid(f"Could not find property with name or id: {name}")
    prop = scope.schema[property_id]
    actual = prop["type"]
    if actual != kind and not (actual in TEXT_TYPES and kind in TEXT_TYPES):
        raise invalid(
            "The property type in the database does not match the property type of the filter provided: "
            f"database property {actual} does not match filter {kind}"
        )
    where = f"{path}.{kind}"
    if kind == "rollup":
        return _compile_rollup(scope, prop, condition[kind], where)
    check = _check(scope.call, prop, kind, condition[kind], where)
    value = _value_reader(scope.call, property_id, prop)
    return lambda page: check(value(page))


def _check(call: Call, prop: Json, kind: str, condition: Any, path: str) -> Check:
    if not isinstance(condition, dict):
        raise invalid_body(path, "an object", condition)
    if kind in TEXT_TYPES:
        return _one(_TEXT, condition, path, str)
    if kind in ("number", "unique_id"):
        return _one(_NUMBER, condition, path, int, float)
    if kind == "checkbox":
        return _one(_CHECKBOX, condition, path, bool)
    if kind in ("select", "status"):
        return _one(_SELECT, condition, path, str, list)
    if kind == "multi_select":
        return _one(_MULTI, condition, path, str, list)
    if kind in ("date", "created_time", "last_edited_time"):
        return _date_check(condition, path, call.now)
    if kind in ("people", "created_by", "last_edited_by", "relation"):
        return _one(_REFERENCES, _with_ids(call, condition, path), path, str)
    if kind == "files":
        return _one({}, condition, path)
    if kind == "verification":
        return _one({"status": lambda v, o: v == o, "does_not_equal": lambda v, o: v != o}, condition, path, str)
    return _formula_check(call, condition, path)


def _with_ids(call: Call, condition: Json, path: str) -> Json:
    found = dict(condition)
    for word in ("contains", "does_not_contain"):
        if word in found:
            text = found[word]
            target = call.user_id if text == "me" else read_id(text)
            if target is None:
                raise invalid_body(f"{path}.{word}", "a valid uuid", text)
            found[word] = target
    return found


def _formula_check(call: Call, condition: Json, path: str) -> Check:
    """A formula's value is `{"type": kind, kind: value}`; a condition on another kind than it has is never met."""
    kind = next((key for key in condition if key in ("string", "checkbox", "number", "date")), None)
    if kind is None:
        raise invalid_body(f"{path}.string", "defined", UNDEFINED)
    as_column = {"string": "rich_text"}.get(kind, kind)
    check = _check(call, {"type": as_column}, as_column, condition[kind], f"{path}.{kind}")
    held = {"checkbox": "boolean"}.get(kind, kind)

    def checked(value: Json) -> bool:
        if value["type"] != held:
            return False
        inner = value[held]
        if held == "date":
            return check(moment_of(inner))
        return check(inner if inner is not None or held != "string" else "")

    return checked


def _compile_rollup(scope: _Scope, prop: Json, condition: Json, path: str) -> Predicate:
    call = scope.call
    for word in ("number", "date"):
        if word in condition:
            check = _check(call, {"type": word}, word, condition[word], f"{path}.{word}")

            def of_value(page: Node, word: str = word, check: Check = check) -> bool:
                value = render_value(call, page, "", prop, None)
                inner = value.get(word)
                return check(moment_of(inner) if word == "date" else inner)

            return of_value
    for word, combine in (("any", any), ("every", _all_of_some), ("none", lambda found: not any(found))):
        if word in condition:
            return _rollup_of_each(scope, prop, condition[word], f"{path}.{word}", combine)
    raise invalid_body(f"{path}.any", "defined", UNDEFINED)


def _all_of_some(found: Iterable[bool]) -> bool:
    """A page without related pages does not have "every" one of them so."""
    answers = list(found)
    return bool(answers) and all(answers)


def _rollup_of_each(scope: _Scope, prop: Json, condition: Json, path: str, combine: Callable[[Any], bool]) -> Predicate:
    kind = next((key for key in condition if key in _KINDS), None) if isinstance(condition, dict) else None
    if kind is None:
        raise invalid_body(f"{path}.rich_text", "defined", UNDEFINED)
    check = _check(scope.call, {"type": kind}, kind, condition[kind], f"{path}.{kind}")

    def read(call: Call, node: Node, property_id: str, column: Json, stored: Any) -> Any:
        return plain_value(call, node, column, stored, render_value)

    def each(page: Node) -> bool:
        held, values = related_values(scope.call, page, prop, read)
        same = held == kind or (held in TEXT_TYPES and kind in TEXT_TYPES)
        return combine(same and check(value) for value in values)

    return each


def _value_reader(call: Call, property_id: str, prop: Json) -> Callable[[Node], Any]:
    """The plain form of one column, as fast as its type allows."""
    kind = prop["type"]
    if kind in OPTION_TYPES and kind != "multi_select":
        names = {option["id"]: option["name"] for option in prop["options"]}
        default = default_status(prop) if kind == "status" else None
        empty = default["name"] if default else None
        return lambda page: names.get(page.body["properties"].get(property_id), empty)
    if kind == "multi_select":
        names = {option["id"]: option["name"] for option in prop["options"]}
        return lambda page: [names[i] for i in page.body["properties"].get(property_id) or () if i in names]
    return lambda page: plain_value(call, page, prop, page.body["properties"].get(property_id), render_value)


def _one(words: Mapping[str, Callable[[Any, Any], bool]], condition: Json, path: str, *types: type) -> Check:
    """Compile a condition that has exactly one word."""
    for word, operand in condition.items():
        if word in ("is_empty", "is_not_empty"):
            if operand is not True:
                raise invalid_body(f"{path}.{word}", "`true`", operand)
            return _is_empty if word == "is_empty" else lambda value: not _is_empty(value)
        if word in words:
            if not isinstance(operand, types) or (isinstance(operand, bool) and bool not in types):
                raise invalid_body(f"{path}.{word}", _TYPE_NAMES[types[0]], operand)
            compare = words[word]
            return lambda value: compare(value, operand)
        raise invalid_body(f"{path}.{word}", "not present", operand)
    raise invalid_body(f"{path}.{next(iter(words), 'is_empty')}", "defined", UNDEFINED)


_TYPE_NAMES: dict[type, str] = {str: "a string", int: "a number", bool: "a boolean"}


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == []


_TEXT: dict[str, Callable[[Any, Any], bool]] = {
    "equals": lambda value, text: value.lower() == text.lower(),
    "does_not_equal": lambda value, text: value.lower() != text.lower(),
    "contains": lambda value, text: text.lower() in value.lower(),
    "does_not_contain": lambda value, text: text.lower() not in value.lower(),
    "starts_with": lambda value, text: value.lower().startswith(text.lower()),
    "ends_with": lambda value, text: value.lower().endswith(text.lower()),
}

_NUMBER: dict[str, Callable[[Any, Any], bool]] = {
    "equals": lambda value, number: value == number,
    "does_not_equal": lambda value, number: value != number,
    "greater_than": lambda value, number: value is not None and value > number,
    "less_than": lambda value, number: value is not None and value < number,
    "greater_than_or_equal_to": lambda value, number: value is not None and value >= number,
    "less_than_or_equal_to": lambda value, number: value is not None and value <= number,
}

_CHECKBOX: dict[str, Callable[[Any, Any], bool]] = {
    "equals": lambda value, wanted: value == wanted,
    "does_not_equal": lambda value, wanted: value != wanted,
}


def _is_named(value: str | None, names: Any) -> bool:
    return value in names if isinstance(names, list) else value == names


_SELECT: dict[str, Callable[[Any, Any], bool]] = {
    "equals": _is_named,
    "does_not_equal": lambda value, names: not _is_named(value, names),
}


def _has_named(values: list[str], names: Any) -> bool:
    return any(name in values for name in names) if isinstance(names, list) else names in values


_MULTI: dict[str, Callable[[Any, Any], bool]] = {
    "contains": _has_named,
    "does_not_contain": lambda values, names: not _has_named(values, names),
}

_REFERENCES: dict[str, Callable[[Any, Any], bool]] = {
    "contains": lambda values, target: target in values,
    "does_not_contain": lambda values, target: target not in values,
}


def _date_check(condition: Json, path: str, now: datetime) -> Check:
    """A condition on a Moment or None. Operands are floored to the minute; a day stands for the whole day."""
    for word, operand in condition.items():
        if word in ("is_empty", "is_not_empty"):
            return _one({}, condition, path)
        if word in _SPANS:
            if operand != {}:
                raise invalid_body(f"{path}.{word}", "an empty object", operand)
            first, last = _SPANS[word](now)
            return lambda value: value is not None and first <= value.at <= last
        if word in _DATE:
            operand = _RELATIVE[operand](now) if isinstance(operand, str) and operand in _RELATIVE else operand
            moment = read_moment(operand) if isinstance(operand, str) else None
            if moment is None:
                raise invalid_body(f"{path}.{word}", "a valid ISO 8601 date string", operand)
            compare = _DATE[word]
            begin = moment.at
            end = begin + (timedelta(days=1) if moment.is_day else timedelta(minutes=1))
            return lambda value: value is not None and compare(value.at, begin, end)
        raise invalid_body(f"{path}.{word}", "not present", operand)
    raise invalid_body(f"{path}.equals", "defined", UNDEFINED)


_DATE: dict[str, Callable[[datetime, datetime, datetime], bool]] = {
    "equals": lambda value, begin, end: begin <= value < end,
    "before": lambda value, begin, end: value < begin,
    "after": lambda value, begin, end: value >= end,
    "on_or_before": lambda value, begin, end: value < end,
    "on_or_after": lambda value, begin, end: value >= begin,
}


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _week_of(now: datetime) -> tuple[datetime, datetime]:
    """Weeks begin on Sunday."""
    today = _midnight(now)
    first = today - timedelta(days=(today.weekday() + 1) % 7)
    return first, first + timedelta(days=7) - timedelta(minutes=1)


def _end_of_day(at: datetime) -> datetime:
    return _midnight(at) + timedelta(days=1) - timedelta(minutes=1)


_SPANS: dict[str, Callable[[datetime], tuple[datetime, datetime]]] = {
    "this_week": _week_of,
    "past_week": lambda now: (_midnight(now) - timedelta(days=7), _end_of_day(now)),
    "past_month": lambda now: (add_months(_midnight(now), -1), _end_of_day(now)),
    "past_year": lambda now: (add_months(_midnight(now), -12), _end_of_day(now)),
    "next_week": lambda now: (_midnight(now), _end_of_day(now + timedelta(days=7))),
    "next_month": lambda now: (_midnight(now), _end_of_day(add_months(now, 1))),
    "next_year": lambda now: (_midnight(now), _end_of_day(add_months(now, 12))),
}


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()


_RELATIVE: dict[str, Callable[[datetime], str]] = {
    "today": _day,
    "tomorrow": lambda now: _day(now + timedelta(days=1)),
    "yesterday": lambda now: _day(now - timedelta(days=1)),
    "one_week_ago": lambda now: _day(now - timedelta(days=7)),
    "one_week_from_now": lambda now: _day(now + timedelta(days=7)),
    "one_month_ago": lambda now: _day(add_months(now, -1)),
    "one_month_from_now": lambda now: _day(add_months(now, 1)),
}
