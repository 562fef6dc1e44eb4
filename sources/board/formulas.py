"""Formula columns: a small evaluator of Notion's formula language, enough for what task boards use.

What it cannot evaluate (an unknown function, a type that does not fit) answers an empty string value; the expression
itself is always kept and answered. The day of `now()` and of days without a time is that of UTC.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from sources.board.call import Json
from sources.board.ids import decoded
from sources.board.times import Moment, add_months, floor_minute

Tree: TypeAlias = tuple[Any, ...]
"""("value", v), ("prop", name or id), ("call", name, arguments)."""
Lookup: TypeAlias = Callable[[str], Any]
"""The plain value of a column by name or id."""


class FormulaError(Exception):
    """Cannot be evaluated."""


_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>"(?:[^"\\]|\\.)*")|\{\{notion:block_property:(?P<id>[^:}]+)[^}]*\}\}"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<mark>==|!=|>=|<=|&&|\|\||[-+*/%^<>!?:(),.\[\]]))"""
)
_BINARY: Mapping[str, tuple[int, str]] = {
    "or": (1, "or"),
    "||": (1, "or"),
    "and": (2, "and"),
    "&&": (2, "and"),
    "==": (3, "equal"),
    "!=": (3, "unequal"),
    ">": (4, "larger"),
    ">=": (4, "largerEq"),
    "<": (4, "smaller"),
    "<=": (4, "smallerEq"),
    "+": (5, "add"),
    "-": (5, "subtract"),
    "*": (6, "multiply"),
    "/": (6, "divide"),
    "%": (6, "mod"),
    "^": (7, "pow"),
}
_CONSTANTS = {"true": True, "false": False}


def value_of(expression: str, stored: Any, lookup: Lookup, now: datetime) -> Json:
    """A stored value (of a seeded page) goes before evaluation."""
    if isinstance(stored, dict):
        return stored
    try:
        return _shown(_evaluate(_parse(expression), lookup, now))
    except (FormulaError, TypeError, ValueError, OverflowError, ZeroDivisionError, RecursionError):
        return {"type": "string", "string": None}


def _shown(value: Any) -> Json:
    if isinstance(value, bool):
        return {"type": "boolean", "boolean": value}
    if isinstance(value, int | float):
        return {"type": "number", "number": value}
    if isinstance(value, Moment):
        start = value.at.date().isoformat() if value.is_day else value.at.isoformat(timespec="milliseconds")
        return {"type": "date", "date": {"start": start, "end": None, "time_zone": None}}
    return {"type": "string", "string": None if value is None else _format(value)}


@lru_cache(maxsize=512)
def _parse(expression: str) -> Tree:
    tokens: list[tuple[str, str]] = []
    position = 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"cannot read at {position}")
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        position = match.end()
    parser = _Parser(tokens)
    tree = parser.expression(0)
    parser.expect_end()
    return tree


class _Parser:
    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def expect_end(self) -> None:
        if self._at != len(self._tokens):
            raise FormulaError("unexpected end")

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str | None = None) -> tuple[str, str]:
        if self._at >= len(self._tokens) or wanted not in (None, self._tokens[self._at][1]):
            raise FormulaError(f"expected {wanted}")
        self._at += 1
        return self._tokens[self._at - 1]

    def expression(self, least: int) -> Tree:
        left = self._unary()
        while True:
            mark = self._peek()
            if mark in _BINARY and _BINARY[mark][0] > least:
                self._take()
                rank, name = _BINARY[mark]
                left = ("call", name, (left, self.expression(rank)))
            elif mark == "?" and least == 0:
                self._take()
                yes = self.expression(0)
                self._take(":")
                left = ("call", "if", (left, yes, self.expression(0)))
            else:
                return left

    def _unary(self) -> Tree:
        if self._peek() == "-":
            self._take()
            return ("call", "unaryMinus", (self._unary(),))
        if self._peek() in ("!", "not"):
            self._take()
            return ("call", "not", (self._unary(),))
        return self._methods(self._primary())

    def _methods(self, tree: Tree) -> Tree:
        while self._peek() == ".":
            self._take()
            name = self._take()[1]
            tree = ("call", name, (tree, *self._arguments()))
        return tree

    def _primary(self) -> Tree:
        kind, text = self._take()
        if kind == "number":
            return ("value", float(text) if "." in text else int(text))
        if kind == "text":
            return ("value", re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1]))
        if kind == "id":
            return ("prop", decoded(text))
        if text == "(":
            tree = self.expression(0)
            self._take(")")
            return tree
        if text == "[":
            return ("call", "list", self._until("]"))
        if kind != "name":
            raise FormulaError(f"unexpected {text}")
        if text in _CONSTANTS:
            return ("value", _CONSTANTS[text])
        arguments = self._arguments()
        if text == "prop" and len(arguments) == 1 and arguments[0][0] == "value":
            return ("prop", arguments[0][1])
        return ("call", text, arguments)

    def _arguments(self) -> tuple[Tree, ...]:
        self._take("(")
        return self._until(")")

    def _until(self, end: str) -> tuple[Tree, ...]:
        found: list[Tree] = []
        while self._peek() != end:
            found.append(self.expression(0))
            if self._peek() != end:
                self._take(",")
        self._take(end)
        return tuple(found)


def _evaluate(tree: Tree, lookup: Lookup, now: datetime) -> Any:
    kind = tree[0]
    if kind == "value":
        return tree[1]
    if kind == "prop":
        return lookup(tree[1])
    _, name, arguments = tree
    if name == "if":
        return _evaluate(arguments[1 if _evaluate(arguments[0], lookup, now) else 2], lookup, now)
    if name == "ifs":
        for number in range(0, len(arguments) - 1, 2):
            if _evaluate(arguments[number], lookup, now):
                return _evaluate(arguments[number + 1], lookup, now)
        return _evaluate(arguments[-1], lookup, now) if len(arguments) % 2 else None
    if name in ("or", "and"):
        results = (bool(_evaluate(argument, lookup, now)) for argument in arguments)
        return any(results) if name == "or" else all(results)
    if name in ("now", "today"):
        return Moment(floor_minute(now), False) if name == "now" else Moment(_midnight(now), True)
    if name not in _FUNCTIONS:
        raise FormulaError(f"unknown function {name}")
    return _FUNCTIONS[name](*(_evaluate(argument, lookup, now) for argument in arguments))


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        return _format(left) + _format(right)
    return left + right


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Moment):
        return _format_date(value, "MMMM D, YYYY" if value.is_day else "MMMM D, YYYY h:mm A")
    if isinstance(value, list):
        return ", ".join(_format(item) for item in value)
    return str(value)


def _to_number(value: Any) -> float | int | None:
    if isinstance(value, Moment):
        return int(value.at.timestamp() * 1000)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else number


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == 0 or value is False


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, Moment) and isinstance(right, Moment):
            return compare(left.at, right.at)
        return left is not None and right is not None and compare(left, right)

    return compared


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Moment) and isinstance(right, Moment):
        return left.at == right.at
    return bool(left == right)


def _shift(sign: int) -> Callable[[Moment | None, Any, str], Moment | None]:
    def shifted(date: Moment | None, amount: Any, unit: str) -> Moment | None:
        if date is None or amount is None:
            return None
        return Moment(_moved(date.at, int(amount) * sign, unit.rstrip("s")), date.is_day and unit not in _CLOCK_UNITS)

    return shifted


_CLOCK_UNITS = ("hours", "minutes", "seconds", "hour", "minute", "second")


def _moved(at: datetime, amount: int, unit: str) -> datetime:
    if unit in ("year", "quarter", "month"):
        return add_months(at, amount * {"year": 12, "quarter": 3, "month": 1}[unit])
    return at + timedelta(**{f"{unit}s": amount})


def _date_between(left: Moment | None, right: Moment | None, unit: str) -> int | None:
    """Whole units from the second to the first, negative when it comes first."""
    if left is None or right is None:
        return None
    unit = unit.rstrip("s")
    if unit in ("year", "quarter", "month"):
        sign = 1 if left.at >= right.at else -1
        early, late = sorted((left.at, right.at))
        months = (late.year - early.year) * 12 + late.month - early.month
        months -= add_months(early, months) > late
        return sign * (months // {"year": 12, "quarter": 3, "month": 1}[unit])
    seconds = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}[unit]
    return int((left.at - right.at).total_seconds() / seconds)


_DATE_PARTS = {
    "YYYY": "%Y", "YY": "%y", "Y": "%Y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "DD": "%d", "D": "%-d",
    "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "A": "%p", "dddd": "%A",
    "ddd": "%a", "W": "%-V", "WW": "%V",
}  # fmt: skip
_DATE_PART = re.compile("|".join(sorted(_DATE_PARTS, key=len, reverse=True)))


def _format_date(date: Moment | None, pattern: str) -> str:
    return "" if date is None else _DATE_PART.sub(lambda m: date.at.strftime(_DATE_PARTS[m[0]]), pattern)


def _part(read: Callable[[datetime], int]) -> Callable[[Moment | None], int | None]:
    return lambda date: None if date is None else read(date.at)


def _round(value: float, digits: int = 0) -> float | int:
    factor = 10**digits
    rounded = math.floor(value * factor + 0.5) / factor
    return int(rounded) if rounded.is_integer() else rounded


def _divide(left: Any, right: Any) -> Any:
    result = left / right
    return int(result) if result.is_integer() else result


def _from_timestamp(milliseconds: float | None) -> Moment | None:
    return None if milliseconds is None else Moment(datetime.fromtimestamp(milliseconds / 1000, UTC), False)


def _contains(holder: Any, item: Any) -> bool:
    return item in holder if isinstance(holder, list) else _format(item) in _format(holder)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _divide,
    "mod": math.fmod,
    "pow": operator.pow,
    "unaryMinus": operator.neg,
    "not": operator.not_,
    "equal": _equal,
    "unequal": lambda left, right: not _equal(left, right),
    "larger": _compare(operator.gt),
    "largerEq": _compare(operator.ge),
    "smaller": _compare(operator.lt),
    "smallerEq": _compare(operator.le),
    "empty": _is_empty,
    "length": len,
    "format": _format,
    "toNumber": _to_number,
    "concat": lambda *parts: "".join(_format(part) for part in parts),
    "contains": _contains,
    "includes": _contains,
    "lower": lambda text: _format(text).lower(),
    "upper": lambda text: _format(text).upper(),
    "replaceAll": lambda text, old, new: _format(text).replace(old, new),
    "substring": lambda text, start, end=None: text[int(start) : None if end is None else int(end)],
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": _round,
    "sqrt": math.sqrt,
    "min": min,
    "max": max,
    "sum": lambda *numbers: sum(numbers[0] if isinstance(numbers[0], list) else numbers),
    "list": lambda *items: list(items),
    "first": lambda items: items[0] if items else None,
    "last": lambda items: items[-1] if items else None,
    "join": lambda items, mark: mark.join(_format(item) for item in items),
    "dateAdd": _shift(1),
    "dateSubtract": _shift(-1),
    "dateBetween": _date_between,
    "formatDate": _format_date,
    "fromTimestamp": _from_timestamp,
    "timestamp": _to_number,
    "minute": _part(lambda at: at.minute),
    "hour": _part(lambda at: at.hour),
    "date": _part(lambda at: at.day),
    "day": _part(lambda at: at.isoweekday()),
    "week": _part(lambda at: at.isocalendar().week),
    "month": _part(lambda at: at.month),
    "year": _part(lambda at: at.year),
}
