"""Queries: the filter language, sorts, pages and caps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notion_client import APIResponseError

from hermes.testing.clock import FakeClock
from sources.board.call import NEWEST, Call
from sources.board.filters import compile_filter
from sources.board.store import Node

Json = dict[str, Any]


def text(words: str) -> list[Json]:
    return [{"text": {"content": words}}]


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(APIResponseError) as error:
        work()
    assert error.value.code == "validation_error"
    return str(error.value)


def test_the_query_of_a_poll(tasks: Any, clock: FakeClock) -> None:
    def status(name: str) -> Json:
        return {"status": {"name": name}}

    now = clock.now()
    old, late = ({"date": {"start": (now + timedelta(minutes=m)).isoformat()}} for m in (-5, 5))
    tasks.add("low", Priority={"select": {"name": "Low"}})
    tasks.add("high", Priority={"select": {"name": "High"}})
    tasks.add("none")
    tasks.add("done", Status=status("Complete"))
    tasks.add("held", Status=status("InProgress"), ClaimExpiresAt=late)
    tasks.add("expired", Status=status("InProgress"), ClaimExpiresAt=old, Priority={"select": {"name": "High"}})
    wanted = {
        "or": [
            {"property": "Status", "status": {"equals": "Todo"}},
            {
                "and": [
                    {"property": "Status", "status": {"equals": "InProgress"}},
                    {"property": "ClaimExpiresAt", "date": {"before": now.isoformat()}},
                ]
            },
        ]
    }
    sorts = [
        {"property": "Priority", "direction": "ascending"},
        {"timestamp": "created_time", "direction": "ascending"},
    ]
    assert tasks.titles(wanted, sorts=sorts) == ["high", "expired", "low", "none"]


def test_without_a_sort_the_newest_comes_first(tasks: Any) -> None:
    for name in "abc":
        tasks.add(name)
    assert tasks.titles() == ["c", "b", "a"]


def test_date_operands_are_floored_to_the_minute(tasks: Any) -> None:
    tasks.add("x", ClaimExpiresAt={"date": {"start": "2026-01-05T10:00:50Z"}})
    check = {
        "equals": ("2026-01-05T10:00:10Z", True),
        "before": ("2026-01-05T10:00:59Z", False),
        "after": ("2026-01-05T10:00:00Z", False),
        "on_or_before": ("2026-01-05T10:00:00Z", True),
        "on_or_after": ("2026-01-05T10:00:59Z", True),
    }
    for word, (operand, found) in check.items():
        assert bool(tasks.query({"property": "ClaimExpiresAt", "date": {word: operand}})) is found, word


def test_a_day_as_operand_means_the_whole_day(tasks: Any) -> None:
    tasks.add("x", ClaimExpiresAt={"date": {"start": "2026-01-05T10:00:00Z"}})
    for word, found in {
        "equals": True,
        "before": False,
        "after": False,
        "on_or_before": True,
        "on_or_after": True,
    }.items():
        assert bool(tasks.query({"property": "ClaimExpiresAt", "date": {word: "2026-01-05"}})) is found, word


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (0, {"this_week", "past_week", "past_month", "past_year", "next_week", "next_month", "next_year"}),
        (-3, {"past_week", "past_month", "past_year"}),
        (6, {"next_week", "next_month", "next_year"}),
        (-20, {"past_month", "past_year"}),
        (200, {"next_year"}),
    ],
)
def test_relative_spans(tasks: Any, clock: FakeClock, days: int, words: set[str]) -> None:
    tasks.add("x", ClaimExpiresAt={"date": {"start": (clock.now() + timedelta(days=days)).date().isoformat()}})
    every = ("this_week", "past_week", "past_month", "past_year", "next_week", "next_month", "next_year")
    assert {w for w in every if tasks.query({"property": "ClaimExpiresAt", "date": {w: {}}})} == words


def test_a_status_filtered_as_a_select_is_refused_and_the_reverse(tasks: Any) -> None:
    said = refused(lambda: tasks.query({"property": "Status", "select": {"equals": "Todo"}}))
    assert said.endswith("database property status does not match filter select")
    said = refused(lambda: tasks.query({"property": "Priority", "status": {"equals": "High"}}))
    assert said.endswith("database property select does not match filter status")


def test_unknown_columns_are_named(tasks: Any) -> None:
    said = refused(lambda: tasks.query({"property": "Nope", "number": {"equals": 1}}))
    assert said == "Could not find property with name or id: Nope"
    said = refused(lambda: tasks.query(sorts=[{"property": "Nope", "direction": "ascending"}]))
    assert said == "Could not find sort property with name or id: Nope"


@pytest.mark.parametrize(
    "condition",
    [
        {"property": "Name"},
        {"property": "Name", "title": {}},
        {"property": "Name", "title": {"equals": 3}},
        {"property": "Name", "title": {"is_empty": False}},
        {"property": "RetryCount", "number": {"equals": "3"}},
        {"property": "RetryCount", "number": {"equals": True}},
        {"property": "ClaimExpiresAt", "date": {"before": "soon"}},
        {"property": "ClaimExpiresAt", "date": {"before": {}}},
        {"property": "ClaimExpiresAt", "date": {"this_week": {"x": 1}}},
        {"timestamp": "deleted_time", "deleted_time": {"before": "2026-01-01"}},
        {"and": {"property": "Name", "title": {"equals": "x"}}},
        {"and": [{"or": [{"and": [{"property": "Name", "title": {"equals": "x"}}]}]}]},
        {"or": [{"property": "Name", "title": {"equals": "x"}}] * 101},
        ["x"],
    ],
)
def test_what_a_filter_may_not_say_is_refused(tasks: Any, condition: Any) -> None:
    tasks.add("x")
    refused(lambda: tasks.query(condition))


def test_timestamps_are_filtered_by_the_floored_minute(tasks: Any, clock: FakeClock) -> None:
    clock.advance(timedelta(seconds=50))
    tasks.add("x")
    for word, found in {"equals": True, "before": False, "on_or_after": True}.items():
        condition = {"timestamp": "last_edited_time", "last_edited_time": {word: "2026-01-05T09:00:10Z"}}
        assert bool(tasks.query(condition)) is found, word


def test_several_options_at_once(tasks: Any) -> None:
    for name in ("Todo", "InProgress", "Failed"):
        tasks.add(name, Status={"status": {"name": name}})
    found = tasks.titles({"property": "Status", "status": {"equals": ["Todo", "Failed"]}})
    assert sorted(found) == ["Failed", "Todo"]
    assert tasks.titles({"property": "Status", "status": {"does_not_equal": ["Todo", "Failed"]}}) == ["InProgress"]


def test_pages_are_walked_by_opaque_cursors_even_while_rows_move(tasks: Any) -> None:
    ids = [tasks.add(str(n)) for n in range(7)]
    sorts = [{"property": "Name", "direction": "ascending"}]
    query = tasks.client.data_sources.query
    first = query(tasks.source_id, page_size=3, sorts=sorts)
    assert first["has_more"] is True
    tasks.client.pages.update(ids[0], in_trash=True)
    second = query(tasks.source_id, page_size=3, sorts=sorts, start_cursor=first["next_cursor"])
    assert [row["id"] for row in second["results"]] == ids[3:6]
    third = query(tasks.source_id, page_size=3, sorts=sorts, start_cursor=second["next_cursor"])
    assert ([row["id"] for row in third["results"]], third["has_more"], third["next_cursor"]) == (ids[6:], False, None)
    assert query(tasks.source_id, start_cursor=None)["results"]
    for bad in ("x", "s:!!", "s:eA", ids[0]):
        assert "start_cursor" in refused(lambda bad=bad: query(tasks.source_id, start_cursor=bad))


def test_a_page_holds_a_hundred(tasks: Any) -> None:
    said = refused(lambda: tasks.query(page_size=101))
    assert said == "body failed validation: body.page_size should be ≤ `100`, instead was `101`."
    refused(lambda: tasks.query(page_size=0))


def test_a_query_ends_at_ten_thousand_results_and_says_so(
    tasks: Any, board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sources.board.query.RESULT_LIMIT", 4)
    for n in range(6):
        tasks.add(str(n))
    first = tasks.client.data_sources.query(tasks.source_id, page_size=3)
    last = tasks.client.data_sources.query(tasks.source_id, page_size=3, start_cursor=first["next_cursor"])
    assert "request_status" not in first
    assert (len(last["results"]), last["has_more"], last["next_cursor"]) == (1, False, None)
    assert last["request_status"] == {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}


def test_search_finds_pages_and_data_sources_by_title(tasks: Any) -> None:
    card = tasks.add("Find me please")
    found = tasks.client.search(query="find please")["results"]
    assert [item["id"] for item in found] == [card]
    sources = tasks.client.search(filter={"property": "object", "value": "data_source"})["results"]
    assert [item["id"] for item in sources] == [tasks.source_id]
    tasks.client.databases.update(tasks.database_id, in_trash=True)
    assert tasks.client.search(query="find please")["results"] == []


# -- the filter language against plain Python

SCHEMA: dict[str, Json] = {
    "title": {"name": "Name", "type": "title"},
    "n": {"name": "N", "type": "number", "format": "number"},
    "c": {"name": "C", "type": "checkbox"},
    "s": {"name": "S", "type": "select", "options": [{"id": i, "name": i.upper(), "color": "red"} for i in "abc"]},
    "m": {
        "name": "M",
        "type": "multi_select",
        "options": [{"id": i, "name": i.upper(), "color": "red"} for i in "abc"],
    },
}
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def row(values: Json) -> Node:
    title = [{"content": values["title"]}] if values["title"] else []
    body = {"properties": {**values, "title": title}}
    return Node("id", "page", "ds", 0.0, NOW, NOW, "u", "u", False, body)


rows = st.fixed_dictionaries(
    {
        "title": st.text("abAB ", max_size=4),
        "n": st.none() | st.integers(-3, 3),
        "c": st.booleans(),
        "s": st.none() | st.sampled_from("abc"),
        "m": st.lists(st.sampled_from("abc"), unique=True),
    }
)
option = st.sampled_from("ABC")


def leaf(name: str, kind: str, words: str, operand: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(name), st.just(kind), st.sampled_from(words.split()), operand)


filled = [("N", "number"), ("S", "select"), ("M", "multi_select"), ("Name", "title")]
leaves = st.one_of(
    leaf("N", "number", "equals does_not_equal greater_than less_than", st.integers(-3, 3)),
    leaf("C", "checkbox", "equals does_not_equal", st.booleans()),
    leaf("S", "select", "equals does_not_equal", option),
    leaf("M", "multi_select", "contains does_not_contain", option),
    leaf("Name", "title", "contains does_not_contain starts_with", st.text("ab", min_size=1, max_size=2)),
    *(leaf(name, kind, "is_empty is_not_empty", st.just(True)) for name, kind in filled),
)
trees = leaves | st.tuples(st.sampled_from(("and", "or")), st.lists(leaves, min_size=1, max_size=3))


def as_filter(tree: Any) -> Json:
    if len(tree) == 2:
        return {tree[0]: [as_filter(leaf) for leaf in tree[1]]}
    name, kind, word, operand = tree
    return {"property": name, kind: {word: operand}}


def by_hand(tree: Any, values: Json) -> bool:
    if len(tree) == 2:
        results = [by_hand(leaf, values) for leaf in tree[1]]
        return all(results) if tree[0] == "and" else any(results)
    name, _, word, operand = tree
    value: Any = {
        "N": values["n"],
        "C": values["c"],
        "S": values["s"] and values["s"].upper(),
        "M": [i.upper() for i in values["m"]],
        "Name": values["title"].lower(),
    }[name]
    if word == "is_empty":
        return value in (None, "", [])
    if word == "is_not_empty":
        return value not in (None, "", [])
    if word == "equals":
        return bool(value == operand)
    if word == "does_not_equal":
        return bool(value != operand)
    if word == "greater_than":
        return value is not None and value > operand
    if word == "less_than":
        return value is not None and value < operand
    if word == "starts_with":
        return bool(value.startswith(operand))
    return (operand in value) is (word == "contains")


class NoBoard:
    """Filters over plain columns ask the board for nothing."""

    store = None


@given(tree=trees, values=rows)
def test_filters_agree_with_plain_python(tree: Any, values: Json) -> None:
    call = Call(board=NoBoard(), user_id="u", version=NEWEST, params={}, query={}, body={}, now=NOW)  # type: ignore[arg-type]
    assert compile_filter(call, SCHEMA, as_filter(tree))(row(values)) is by_hand(tree, values)
