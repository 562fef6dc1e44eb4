"""A result as blocks of a page: small Markdown, cut to Notion's limits, and what of it is in the page already.

The blocks of a section depend on its text alone, so an append of unknown outcome can be compared and completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sources.notion.text import clean, cut, pieces, plain_text, rich_text

BLOCKS_A_CALL = 100
BYTES_A_CALL = 400_000
"""Of the 500 KB a request may have."""
BLOCK_UNITS = 20_000
"""Longest text of one block: ten segments. A hundred full ones would be more than a request may have."""
SECTION_BLOCKS = 1000
SECTION_UNITS = 500_000
CUT_NOTE = "(cut here: the result is longer than a page should hold; the run has all of it)"

_HEADING = re.compile(r"(#{1,6}) +(.+?)\s*#*$")
_BULLET = re.compile(r"\s*[-*+] +(.+)$")
_NUMBER = re.compile(r"\s*\d{1,9}[.)] +(.+)$")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_RULE = re.compile(r"\s*(?:-{3,}|\*{3,}|_{3,})\s*$")


def label(marker: str) -> str:
    """How a marker stands in a heading or comment: closed on both sides, so run 1 is not found in run 10."""
    return f"[hermes:{marker}]"


def section(marker: str, markdown: str) -> list[dict[str, Any]]:
    """A heading that carries the marker, then the text."""
    blocks = [_block("heading_2", f"Result {label(marker)}")]
    blocks.extend(_limited(_blocks(cut(clean(markdown), SECTION_UNITS, note=f"\n\n{CUT_NOTE}"))))
    return blocks


def calls(blocks: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The blocks in portions that one request may carry. The cuts depend on the blocks alone."""
    portion: list[dict[str, Any]] = []
    size = 0
    for block in blocks:
        weight = len(json.dumps(block, ensure_ascii=False).encode())
        if portion and (len(portion) == BLOCKS_A_CALL or size + weight > BYTES_A_CALL):
            yield portion
            portion, size = [], 0
        portion.append(block)
        size += weight
    if portion:
        yield portion


def landed(portions: list[list[dict[str, Any]]], children: Iterable[Mapping[str, Any]]) -> tuple[int, str | None]:
    """How many portions are in the page, and the id of the section's last block there.

    An append is made whole or not at all, so one block of a portion proves the portion. People may have written between
    the blocks or changed some; the first heading of another section ends ours.
    """
    expected = [(_signature(block), number) for number, portion in enumerate(portions) for block in portion]
    heading = expected[0][0]
    position, count, last = 0, 0, None
    for child in children:
        seen = _signature(child)
        if position == 0:
            if seen != heading:
                continue
        elif seen[0] == "heading_2" and "[hermes:" in seen[1]:
            break
        for ahead in range(position, len(expected)):
            if expected[ahead][0] == seen:
                position, count, last = ahead + 1, expected[ahead][1] + 1, str(child.get("id"))
                break
    return count, last


def _signature(block: Mapping[str, Any]) -> tuple[str, str]:
    kind = str(block.get("type"))
    inner = block.get(kind)
    text = plain_text(inner.get("rich_text")) if isinstance(inner, Mapping) else ""
    return kind, " ".join(text.split())


def _limited(blocks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for count, block in enumerate(blocks, start=2):  # the heading is the first
        if count == SECTION_BLOCKS:
            yield _block("paragraph", CUT_NOTE)
            return
        yield block


def _blocks(markdown: str) -> Iterator[dict[str, Any]]:
    paragraph: list[str] = []
    lines = iter(markdown.splitlines())

    def flush() -> Iterator[dict[str, Any]]:
        if paragraph:
            yield from _split("paragraph", "\n".join(paragraph))
            paragraph.clear()

    for line in lines:
        if fence := _FENCE.match(line):
            yield from flush()
            yield from _split("code", "\n".join(_until_fence(lines, fence.group(1))), language="plain text")
        elif not line.strip():
            yield from flush()
        elif _RULE.match(line):
            yield from flush()
            yield {"type": "divider", "divider": {}}
        elif heading := _HEADING.match(line):
            yield from flush()
            # A step smaller than written: the section has a heading of its own.
            yield from _split("heading_3", heading.group(2))
        elif bullet := _BULLET.match(line):
            yield from flush()
            yield from _split("bulleted_list_item", bullet.group(1))
        elif number := _NUMBER.match(line):
            yield from flush()
            yield from _split("numbered_list_item", number.group(1))
        elif line.startswith(">"):
            yield from flush()
            yield from _split("quote", line[1:].strip())
        else:
            paragraph.append(line.rstrip())
    yield from flush()


def _until_fence(lines: Iterator[str], fence: str) -> Iterator[str]:
    for line in lines:
        if line.strip().startswith(fence):
            return
        yield line


def _split(kind: str, text: str, **more: Any) -> Iterator[dict[str, Any]]:
    for piece in pieces(text, BLOCK_UNITS):
        yield _block(kind, piece, **more)


def _block(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, kind: {"rich_text": rich_text(text), **more}}
