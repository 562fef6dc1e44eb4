"""Rollup columns: what the pages behind a relation hold, listed or reduced."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sources.board.call import Call, Json
from sources.board.schema import find_property
from sources.board.store import Node
from sources.board.times import read_moment

Render: TypeAlias = Callable[[Call, Node, str, Json, Any], Any]
Values: TypeAlias = Sequence[Any]


def value_of(call: Call, page: Node, prop: Json, render: Render) -> Json:
    """`render` gives the answer of one property of one page (properties.render_value)."""
    function = prop["function"]
    kind, values = related_values(call, page, prop, render)
    if function in _DATES:
        return {"type": "date", "date": _DATES[function](values), "function": function}
    if function in _NUMBERS:
        return {"type": "number", "number": _NUMBERS[function](values), "function": function}
    return {"type": "array", "array": [{"type": kind, kind: value} for value in values], "function": function}


def related_values(call: Call, page: Node, prop: Json, render: Render) -> tuple[str, list[Any]]:
    """The type of the column rolled up, and its value on each related page."""
    home = call.store.get(page.parent_id)
    relation = home.body["properties"].get(prop["relation"]) if home else None
    source = call.store.get(relation["data_source_id"]) if relation else None
    target = find_property(source.body["properties"], prop["target"]) if source else None
    if source is None or target is None:
        return "rich_text", []
    column = source.body["properties"][target]
    values = []
    for page_id in page.body["properties"].get(prop["relation"]) or ():
        other = call.store.get(page_id)
        if other is not None and not other.in_trash:
            values.append(render(call, other, target, column, other.body["properties"].get(target)))
    return column["type"], values


def _filled(values: Values) -> list[Any]:
    return [value for value in values if value not in (None, [], "", False)]


def _numeric(values: Values) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _share(part: int, values: Values) -> float | None:
    return part / len(values) if values else None


def _reduce(function: Callable[[list[float]], float]) -> Callable[[Values], float | None]:
    def reduced(values: Values) -> float | None:
        numbers = _numeric(values)
        return function(numbers) if numbers else None

    return reduced


def _unique(values: Values) -> int:
    return len({repr(value) for value in _filled(values)})


def _starts(values: Values) -> list[Json]:
    dates = []
    for value in values:
        if isinstance(value, str):
            value = {"start": value, "end": None, "time_zone": None}
        if isinstance(value, dict) and "start" in value:
            dates.append(value)
    return dates


def _instant(text: str) -> Any:
    moment = read_moment(text)
    assert moment is not None  # noqa: S101 - values were checked when they were written
    return moment.at


def _earliest(values: Values) -> Json | None:
    dates = _starts(values)
    return {**min(dates, key=lambda d: _instant(d["start"])), "end": None} if dates else None


def _latest(values: Values) -> Json | None:
    dates = _starts(values)
    return {**max(dates, key=lambda d: _instant(d["end"] or d["start"])), "end": None} if dates else None


def _span(values: Values) -> Json | None:
    first, last = _earliest(values), _latest(values)
    return None if first is None or last is None else {**first, "end": last["start"]}


_DATES: dict[str, Callable[[Values], Json | None]] = {
    "earliest_date": _earliest,
    "latest_date": _latest,
    "date_range": _span,
}

_NUMBERS: dict[str, Callable[[Values], float | None]] = {
    "count": len,
    "count_values": lambda values: sum(len(v) if isinstance(v, list) else 1 for v in _filled(values)),
    "empty": lambda values: len(values) - len(_filled(values)),
    "not_empty": lambda values: len(_filled(values)),
    "unique": _unique,
    "percent_empty": lambda values: _share(len(values) - len(_filled(values)), values),
    "percent_not_empty": lambda values: _share(len(_filled(values)), values),
    "checked": lambda values: sum(1 for v in values if v is True),
    "unchecked": lambda values: sum(1 for v in values if v is False),
    "percent_checked": lambda values: _share(sum(1 for v in values if v is True), values),
    "percent_unchecked": lambda values: _share(sum(1 for v in values if v is False), values),
    "sum": lambda values: sum(_numeric(values)),
    "average": _reduce(statistics.fmean),
    "median": _reduce(statistics.median),
    "min": _reduce(min),
    "max": _reduce(max),
    "range": _reduce(lambda numbers: max(numbers) - min(numbers)),
}
