"""Text as Notion counts and accepts it: UTF-16 units, no halves of a surrogate pair, no empty segments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

SEGMENT_UNITS = 2000
"""Longest content of one text segment."""
SEGMENT_COUNT = 100
"""Most segments in one array."""

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str) -> str:
    """What can be sent: a lone surrogate cannot be encoded, a NUL is refused, and no terminal that the text is copied
    to should obey it."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def storable(text: str) -> str:
    """What was read, as every database and encoding takes it: a board may answer half of a surrogate pair."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def units(text: str) -> int:
    """Length in UTF-16 units: letters outside the basic plane (emoji) count twice."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def cut(text: str, limit: int, *, note: str = "…") -> str:
    """At most `limit` units; what was cut shows by `note` at the end."""
    if units(text) <= limit:
        return text
    return _head(text, limit - units(note)).rstrip() + note


def pieces(text: str, limit: int = SEGMENT_UNITS) -> Iterator[str]:
    """`text` in pieces of at most `limit` units, none of them empty; joined they are `text` again."""
    while text:
        head = _head(text, limit)
        yield head
        text = text[len(head) :]


def rich_text(text: str) -> list[dict[str, Any]]:
    """The value of a text column, or the body of a block. Empty text is an empty list."""
    segments = [{"type": "text", "text": {"content": piece}} for piece in pieces(clean(text))]
    if len(segments) > SEGMENT_COUNT:
        raise ValueError(f"{len(segments)} text segments; the caller cuts before {SEGMENT_COUNT}")
    return segments


def plain_text(segments: object) -> str:
    """Every segment's text joined: a bold word in the middle is a segment of its own."""
    if not isinstance(segments, list):
        return ""
    return storable("".join(_plain(segment) for segment in segments if isinstance(segment, dict)))


def _plain(segment: dict[str, Any]) -> str:
    if isinstance(plain := segment.get("plain_text"), str):
        return plain
    inner = segment.get("text")
    content = inner.get("content") if isinstance(inner, dict) else None
    return content if isinstance(content, str) else ""


def _head(text: str, limit: int) -> str:
    if len(text) <= limit and units(text) <= limit:
        return text
    used = 0
    for position, letter in enumerate(text):
        used += 2 if letter > "\uffff" else 1
        if used > limit:
            return text[:position]
    return text
