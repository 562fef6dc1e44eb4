"""JSON from outside: one meaning or none. What two readers could take differently is refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from pydantic_core import from_json

from hermes.model.json import JSON


class NotJson(ValueError):
    """The text says what is wrong, and nothing of what was sent."""


def read_json(raw: bytes | str) -> JSON:
    """Raises NotJson: for what is no JSON, no UTF-8, has a key twice, NaN or a number that is none, half a surrogate
    pair, or more levels than pydantic reads back (200)."""
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        value: JSON = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)
        from_json(canonical(value))
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson("it is not UTF-8") from None
    except RecursionError:
        raise NotJson("it has too many levels") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # a number of thousands of digits, half a pair, too many levels
        raise NotJson("it holds a number or a text that cannot be kept, or too many levels") from None
    return value


def canonical(value: JSON) -> str:
    """One text for all spellings of the same value."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    text.encode("utf-8")  # half a surrogate pair is a ValueError here, and not in the database
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("an object has the same key twice")
    return found


def _refuse(_word: str) -> NoReturn:
    raise NotJson("NaN and Infinity are no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotJson("a number is too large")
    return number
