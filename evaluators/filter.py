"""CEL filters over cards: checked when the file is read, evaluated in linear time with a budget.

Every field of a card is declared as a variable of its own (`record.title`, ...), so that a misspelt field or a number
compared with a text is an error of the file with its column, not a filter that never matches.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from evaluators.cel_words import close_to, place, reason, syntax_error
from hermes.errors import ConfigError
from hermes.model.card import Card
from hermes.model.json import JSON
from hermes.ports.filter import FilterError

MAX_LENGTH = 10_000
_TYPE = cel.Type
_PROPERTIES = _TYPE.Map(_TYPE.STRING, _TYPE.DYN)

FIELDS: Mapping[str, Any] = {
    "id": _TYPE.STRING,
    "url": _TYPE.STRING,
    "title": _TYPE.STRING,
    "description": _TYPE.STRING,
    "status": _TYPE.STRING,
    "status_name": _TYPE.DYN,
    "priority": _TYPE.DYN,
    "priority_rank": _TYPE.DOUBLE,
    "created_at": _TYPE.TIMESTAMP,
    "edited_at": _TYPE.TIMESTAMP,
    "edited_by": _TYPE.DYN,
    "retry_count": _TYPE.INT,
    "last_error": _TYPE.DYN,
    "properties": _PROPERTIES,
}
"""What `record.` offers. DYN may be null. The claim's own columns are left out: they are never a reason to claim."""
POLL_FIELDS: Mapping[str, Any] = {"id": _TYPE.STRING, "owner": _TYPE.STRING, "workspace": _TYPE.STRING}

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROPERTY = re.compile(
    r"""\brecord\.properties(?:\[\s*(?P<quote>["'])(?P<key>(?:(?!(?P=quote))[^\\])*)(?P=quote)\s*\]"""
    r"""|\.(?P<name>[A-Za-z_]\w*))"""
)
_HAS_FIELD = re.compile(r"\bhas\(\s*(record\.(?!properties\b)\w+)\s*\)")
_LITERAL = re.compile(r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*""", re.DOTALL)
"""Texts and comments."""
_REGEX = re.compile(r"""\.matches\(\s*(r?)(["'])((?:(?!\2)[^\\]|\\.)*)\2\s*\)""")


class CelFilter:
    def __init__(self, text: str, expression: Any, columns: frozenset[str] | None) -> None:
        self.text = text
        self._expression = expression
        self._columns = columns

    def matches(self, record: Card, poll: Mapping[str, JSON], now: datetime) -> bool:
        try:
            result = self._expression.eval(data=_values(record, poll, now, self._columns))
            kind, value = result.type(), result.value()
        except RuntimeError as exc:
            raise FilterError(reason(str(exc)), record_id=record.id) from exc
        if kind == _TYPE.BOOL:
            return bool(value)
        if kind == _TYPE.ERROR:
            raise FilterError(reason(str(value)), record_id=record.id)
        raise FilterError(f"the filter gives {kind.name().lower()}, not true or false", record_id=record.id)


class CelCompiler:
    """Implements `hermes.ports.filter.FilterCompiler`."""

    def compile(self, text: str, columns: Collection[str] | None = None) -> CelFilter:
        if len(text) > MAX_LENGTH:
            raise ConfigError(f"the expression is longer than {MAX_LENGTH:,} characters")
        if "\x00" in text:
            raise ConfigError("the expression holds a NUL character")
        names = frozenset(columns) if columns is not None else None
        _refuse_traps(text, names)
        try:
            expression = _environment(names).compile(text)
        except RuntimeError as exc:
            raise syntax_error(str(exc), [*FIELDS, *_own_columns(names)], list(POLL_FIELDS)) from exc
        kind = expression.return_type()
        if kind not in (_TYPE.BOOL, _TYPE.DYN):
            raise ConfigError(f"the expression gives {kind.name().lower()}, not true or false", where="1:1")
        return CelFilter(text, expression, names)


def _environment(columns: frozenset[str] | None) -> Any:
    variables = {f"record.{name}": kind for name, kind in FIELDS.items()}
    variables |= {f"poll.{name}": kind for name, kind in POLL_FIELDS.items()}
    variables |= {f"record.{name}": _TYPE.DYN for name in _own_columns(columns)}
    variables["now"] = _TYPE.TIMESTAMP
    return cel.NewEnv(variables=variables, functions=[_DATE], extensions=[ext_strings.ExtStrings()])


def _instant(text: str) -> datetime:
    """What a date column holds: a day (its midnight, UTC) or an instant. CEL's own `timestamp()` knows no days."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"not a date: {text[:40]!r}") from exc
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


_DATE = cel.FunctionDecl("date", [cel.Overload("date_string", _TYPE.TIMESTAMP, [_TYPE.STRING], False, _instant)])


def _own_columns(columns: frozenset[str] | None) -> list[str]:
    """Columns that can be written as `record.Name`; all can be written as `record.properties["Name"]`."""
    return [name for name in columns or () if name not in FIELDS and _IDENTIFIER.fullmatch(name)]


def _values(record: Card, poll: Mapping[str, JSON], now: datetime, columns: frozenset[str] | None) -> dict[str, Any]:
    properties = {_clean(name): _cel(value) for name, value in record.properties.items()}
    values: dict[str, Any] = {
        "record.id": record.id,
        "record.url": _clean(record.url),
        "record.title": _clean(record.title),
        "record.description": _clean(record.description),
        "record.status": record.status.value,
        "record.status_name": _cel(record.status_name),
        "record.priority": _cel(record.priority),
        "record.priority_rank": float(record.priority_rank),
        "record.created_at": record.created_at.astimezone(UTC),
        "record.edited_at": record.edited_at.astimezone(UTC),
        "record.edited_by": _cel(record.edited_by),
        "record.retry_count": int(record.retry_count),
        "record.last_error": _cel(record.last_error),
        "record.properties": properties,
        "now": now.astimezone(UTC),
    }
    values |= {f"poll.{name}": str(poll.get(name) or "") for name in POLL_FIELDS}
    values |= {f"record.{name}": properties.get(name) for name in _own_columns(columns)}
    return values


def _cel(value: JSON) -> Any:
    """As CEL takes it: no lone surrogates, no integers beyond 64 bits."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value)
    if isinstance(value, list):
        return [_cel(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _cel(inner) for key, inner in value.items()}
    return value


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _refuse_traps(text: str, columns: frozenset[str] | None) -> None:
    """What CEL accepts and nobody means."""
    quoted = [found.span() for found in _LITERAL.finditer(text)]

    def outside(found: re.Match[str]) -> bool:
        return not any(start <= found.start() < end for start, end in quoted)

    for found in filter(outside, _HAS_FIELD.finditer(text)):
        message = f"every card has `{found[1]}`: write `{found[1]} != null`"
        raise ConfigError(message, where=place(text, found.start()))
    for found in filter(outside, _REGEX.finditer(text)):
        problem = _bad_regex(found[0])
        if problem:
            message = f"not a regular expression that RE2 knows: {problem}"
            raise ConfigError(message, where=place(text, found.start(3)))
    for found in filter(outside, _PROPERTY.finditer(text)) if columns is not None else ():
        name = found["key"] if found["key"] is not None else found["name"]
        if columns is not None and name not in columns:
            shown = ", ".join(sorted(columns))
            message = f"the board has no column `{name}`.{close_to(name, columns)} (columns: {shown})"
            raise ConfigError(message, where=place(text, found.start()))


def _bad_regex(call: str) -> str | None:
    """Tries a pattern on the empty text: CEL reads it only when it is used."""
    result = cel.NewEnv().compile(f'""{call}').eval(data={})
    return reason(str(result.value())) if result.type() == _TYPE.ERROR else None
