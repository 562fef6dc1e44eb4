"""Durations as people write them: `20s`, `15m`, `1h30m`, `2d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

PATTERN = r"^(?=.)(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?$"
_DURATION = re.compile(PATTERN)
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")


def parse_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError("expected a duration such as 20s, 15m, 1h30m or 2d (a number needs its unit)")
    return timedelta(**{unit: int(part) for unit, part in zip(_UNITS, found.groups(), strict=True) if part})


def show_duration(value: timedelta) -> str:
    """The shortest spelling that `parse_duration` reads back."""
    left = int(value.total_seconds())
    parts = []
    for letter, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0s"


def between(shortest: str, longest: str) -> AfterValidator:
    """A bound for a `Duration`, said in the words of the file."""
    low, high = parse_duration(shortest), parse_duration(longest)

    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            raise ValueError(f"must be between {shortest} and {longest}")
        return value

    return AfterValidator(check)


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["20s", "15m", "1h30m", "2d"]}),
]
