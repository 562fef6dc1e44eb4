"""Requests that are wrong in every place: each is refused or understood, none is an error of the board's own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sources.board import ROOT_PAGE_ID, BoardServer
from sources.board.blocks import DEEPEST

Json = dict[str, Any]
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    "",
    "x" * 2001,
    "\u0000",
    [],
    {},
    [None],
    {"id": "x"},
    {"name": 3},
    ["a"],
)


def text(words: str) -> list[Json]:
    return [
        {
            "type": "text",
            "text": {"content": words, "link": {"url": "https://a.example"}},
            "annotations": {"bold": True},
        }
    ]


PARENT = {"type": "page_id", "page_id": ROOT_PAGE_ID}
VALUES: Json = {
    "Name": {"title": text("x")},
    "Status": {"status": {"name": "Todo"}},
    "Priority": {"select": {"name": "High", "color": "red"}},
    "ClaimExpiresAt": {"date": {"start": "2026-01-05T10:00:00", "end": "2026-01-06", "time_zone": "Europe/Berlin"}},
    "RetryCount": {"number": 3},
}
COLUMNS: Json = {
    "Title": {"title": {}},
    "S": {"status": {"options": [{"name": "A", "color": "red", "description": "d"}]}},
    "M": {"multi_select": {"options": [{"name": "A"}]}},
    "N": {"number": {"format": "euro"}},
    "U": {"unique_id": {"prefix": "T"}},
    "F": {"formula": {"expression": "1 + 1"}},
}
EXPIRED: Json = {"property": "ClaimExpiresAt", "date": {"before": "2026-01-05"}}
FILTER: Json = {
    "or": [
        {"property": "Status", "status": {"equals": "Todo"}},
        {"and": [EXPIRED, {"property": "RetryCount", "number": {"equals": 1}}]},
        {"timestamp": "created_time", "created_time": {"past_week": {}}},
    ]
}
BLOCKS: list[Json] = [
    {"type": "to_do", "to_do": {"rich_text": text("a"), "checked": True, "children": [{"divider": {}}]}},
    {"image": {"external": {"url": "https://a.example/a.png"}, "caption": text("c")}},
    {"table": {"table_width": 1, "children": [{"table_row": {"cells": [text("c")]}}]}},
]


def requests(tasks: Any, card: str) -> list[tuple[str, str, Json]]:
    source_id = tasks.source_id
    source = f"/v1/data_sources/{source_id}"
    fewer: Json = {"Priority": {"select": {"options": [{"name": "High"}]}}}
    relation: Json = {"R": {"relation": {"data_source_id": source_id, "dual_property": {}}}}
    sorts = [{"property": "Name", "direction": "ascending"}]
    row = {"parent": {"data_source_id": source_id}, "properties": VALUES, "children": BLOCKS}
    pages = {"property": "object", "value": "page"}
    upload = {"mode": "multi_part", "filename": "a", "content_type": "b/c", "number_of_parts": 2}
    return [
        (
            "POST",
            "/v1/databases",
            {"parent": PARENT, "title": text("t"), "initial_data_source": {"properties": COLUMNS}},
        ),
        ("PATCH", source, {"title": text("t"), "properties": fewer}),
        ("PATCH", source, {"properties": relation}),
        ("POST", f"{source}/query", {"filter": FILTER, "sorts": sorts, "page_size": 5}),
        ("POST", "/v1/pages", row),
        ("PATCH", f"/v1/pages/{card}", {"properties": VALUES, "icon": {"emoji": "x"}, "in_trash": False}),
        ("POST", f"/v1/pages/{card}/move", {"parent": PARENT}),
        ("PATCH", f"/v1/pages/{card}/markdown", {"type": "insert_content", "insert_content": {"content": "# x"}}),
        ("PATCH", f"/v1/blocks/{card}/children", {"children": BLOCKS, "position": {"type": "end"}}),
        ("POST", "/v1/comments", {"parent": {"page_id": card}, "rich_text": text("c")}),
        ("POST", "/v1/search", {"query": "x", "filter": pages, "sort": {"timestamp": "last_edited_time"}}),
        ("POST", "/v1/file_uploads", upload),
        ("POST", "/v1/views", {"data_source_id": source_id, "type": "table", "name": "v"}),
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def spoilt(body: Json, path: tuple[Any, ...], junk: Any) -> Json:
    body = copy.deepcopy(body)
    holder: Any = body
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = copy.deepcopy(junk)
    return body


@pytest.mark.parametrize("which", range(13))
def test_a_spoilt_request_is_never_an_internal_error(
    tasks: Any, board: BoardServer, http: httpx.Client, which: int
) -> None:
    card = tasks.add("x")
    method, path, body = requests(tasks, card)[which]
    assert http.request(method, path, json=body).status_code == 200
    codes = set()
    for place in places(body):
        for junk in JUNK:
            answer = http.request(method, path, json=spoilt(body, place, junk))
            codes.add(answer.status_code)
            assert answer.status_code in (200, 400, 404), (place, junk, answer.text)
    assert 400 in codes
    for page in board.board.store.of_kind("page"):
        assert http.get(f"/v1/pages/{page.id}").status_code == 200
    assert http.get(f"/boards/{tasks.database_id}").status_code in (200, 404)


def test_a_page_nested_too_deep_to_be_rendered_is_refused(tasks: Any, http: httpx.Client) -> None:
    card = tasks.add("x")
    stairs = "\n".join("\t" * level + "- step" for level in range(DEEPEST + 1))
    insert = {"type": "insert_content", "insert_content": {"content": stairs}}
    assert http.patch(f"/v1/pages/{card}/markdown", json=insert).status_code == 400
    parent, levels = card, 0
    while True:
        answer = http.patch(f"/v1/blocks/{parent}/children", json={"children": [{"toggle": {"rich_text": []}}]})
        if answer.status_code != 200:
            break
        parent, levels = answer.json()["results"][0]["id"], levels + 1
    assert (answer.status_code, levels) == (400, DEEPEST)
    assert http.get(f"/v1/pages/{card}/markdown").status_code == 200
    assert http.get(f"/boards/{tasks.database_id}/cards/{card}").status_code == 200
