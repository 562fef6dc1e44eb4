"""Formula columns. The expression is kept and answered, not evaluated: a page answers the value that was stored for it
(by a seeded board), or an empty string value."""

from __future__ import annotations

from typing import Any

from sources.board.call import Json


def value_of(prop: Json, stored: Any) -> Json:
    return stored if isinstance(stored, dict) else {"type": "string", "string": None}
