"""Checks of single values in requests, refused in Notion's words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sources.board.errors import UNDEFINED, invalid_body

COLORS = ("default", "gray", "brown", "orange", "yellow", "green", "blue", "purple", "pink", "red")
TEXT_COLORS = frozenset(COLORS) | {f"{color}_background" for color in COLORS}


def utf16_units(text: str) -> int:
    """Length as Notion counts it: an emoji beyond the basic plane is two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_text(value: Any, path: str, limit: int) -> str:
    """A text of at most `limit` UTF-16 units."""
    if not isinstance(value, str):
        raise invalid_body(path, "defined" if value is UNDEFINED else "a string", value)
    units = utf16_units(value)
    if units > limit:
        raise invalid_body(f"{path}.length", f"≤ `{limit}`", units)
    return value


def check_color(value: Any, path: str, colors: Collection[str]) -> str:
    if not isinstance(value, str) or value not in colors:
        raise invalid_body(path, "a color", value)
    return value
