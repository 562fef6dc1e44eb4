"""Lists in pages, with cursors that clients must not look into."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from sources.board.call import Call, Json
from sources.board.errors import NotionError, invalid


def page_of(call: Call, items: Sequence[Json], kind: str) -> Json:
    """One page of a list whose items have ids; the cursor is the id of the next item, as Notion has it for blocks."""
    size = call.page_size()
    cursor = call.start_cursor()
    start = 0
    if cursor is not None:
        start = next((number for number, item in enumerate(items) if item["id"] == cursor), -1)
        if start < 0:
            raise bad_cursor(cursor)
    following = items[start + size]["id"] if start + size < len(items) else None
    return envelope(items[start : start + size], following, kind)


def envelope(results: Sequence[Any], next_cursor: str | None, kind: str) -> Json:
    return {
        "object": "list",
        "results": list(results),
        "next_cursor": next_cursor,
        "has_more": next_cursor is not None,
        "type": kind,
        kind: {},
    }


def offset_cursor(offset: int, next_id: str) -> str:
    """For rows that move between two pages: remembers both the place and the row that stood there."""
    return "s:" + base64.urlsafe_b64encode(f"{offset}:{next_id}".encode()).decode().rstrip("=")


def read_offset_cursor(cursor: str) -> tuple[int, str]:
    prefix, _, coded = cursor.partition(":")
    try:
        offset, _, next_id = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode().partition(":")
        number = int(offset)
    except (ValueError, binascii.Error) as exc:
        raise bad_cursor(cursor) from exc
    if prefix != "s" or number < 0 or not next_id:
        raise bad_cursor(cursor)
    return number, next_id


def bad_cursor(cursor: str) -> NotionError:
    return invalid(f"The start_cursor provided is invalid: {cursor}")
