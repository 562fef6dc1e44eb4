"""Which column stands for what, and what is said about those that are not there."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hermes.errors import Misconfigured
from hermes.model.card import CardStatus
from sources.notion import BoardSettings
from sources.notion.columns import Columns, fold, read_columns


def select(*names: str, kind: str = "select", prefix: str = "o") -> dict[str, Any]:
    return {"type": kind, kind: {"options": [{"id": f"{prefix}-{name}", "name": name} for name in names]}}


def schema(**columns: dict[str, Any] | None) -> dict[str, Any]:
    wanted: dict[str, dict[str, Any] | None] = {
        "Name": {"id": "title", "type": "title", "title": {}},
        "Status": {"id": "st", **select("Todo", "InProgress", "Complete", "Failed")},
        "Priority": {"id": "pr", **select("Urgent", "High", "Low")},
        **{name: {"id": name.lower(), "type": "rich_text"} for name in ("ClaimedBy", "RunId", "LastError")},
        **{name: {"id": name.lower(), "type": "date"} for name in ("ClaimedAt", "ClaimExpiresAt", "CompletedAt")},
        "RetryCount": {"id": "rc", "type": "number", "number": {}},
        **columns,
    }  # fmt: skip
    return {"properties": {name: {"name": name, **column} for name, column in wanted.items() if column}}


def settings(**more: Any) -> BoardSettings:
    return BoardSettings.model_validate({"connection": "n", "board": "b", **more})


def problems(columns: Columns) -> list[str]:
    return [str(missing) for missing in columns.missing]


def test_whole_board_lacks_nothing() -> None:
    columns = read_columns(schema(), settings())
    assert problems(columns) == []
    columns.require_all()
    assert columns.get("description") is None


@pytest.mark.parametrize("kind", ["people", "formula", "rollup", "button", "unique_id"])
@pytest.mark.parametrize("name", ["ClaimedBy", "RunId", "Status", "RetryCount", "ClaimedAt"])
def test_control_column_is_never_of_a_kind_that_cannot_be_written(name: str, kind: str) -> None:
    columns = read_columns(schema(**{name: {"id": "x", "type": kind, kind: {}}}), settings())
    [problem] = problems(columns)
    assert f"{name!r} is of type {kind}" in problem


def test_exact_name_comes_before_a_similar_one() -> None:
    columns = read_columns(schema(**{"runid ": {"id": "other", "type": "rich_text", "rich_text": {}}}), settings())
    assert columns.require("run_id").id == "runid"


def test_two_similar_names_are_not_guessed_between() -> None:
    twins = {"RUNID": {"id": "a", "type": "rich_text"}, "runid": {"id": "b", "type": "rich_text"}}
    columns = read_columns(schema(RunId=None, **twins), settings())
    assert problems(columns) == ["column 'RunId' could be any of 'RUNID', 'runid'"]


@pytest.mark.parametrize(("one", "other"), [("Todo", " TODO "), ("Concluído", "concluído"), ("Straße", "STRASSE")])
def test_names_are_compared_as_people_read_them(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_known_columns_are_found_again_by_id_whatever_they_are_called_now() -> None:
    before = read_columns(schema(), settings(priority_order=["Low", "High"]))
    renamed = schema(RunId=None, Lauf={"id": "runid", "type": "rich_text", "rich_text": {}})
    renamed["properties"]["Status"]["select"]["options"][0]["name"] = "A fazer"
    renamed["properties"]["Priority"]["select"]["options"][2]["name"] = "Whenever"
    # A new column that took the old name is not the one we know.
    renamed["properties"]["RunId"] = {"id": "new", "name": "RunId", "type": "rich_text"}
    after = read_columns(renamed, settings(priority_order=["Low", "High"]), before)
    assert problems(after) == []
    assert after.require("run_id").id == "runid"
    assert after.option_for(CardStatus.todo).name == "A fazer"
    assert after.rank_of("Whenever", "o-Low") == 0


def test_column_made_again_under_its_old_name_is_taken() -> None:
    before = read_columns(schema(), settings())
    after = read_columns(schema(RunId={"id": "second", "type": "rich_text"}), settings(), before)
    assert after.require("run_id").id == "second"


def test_option_is_recognised_by_id_then_by_name() -> None:
    columns = read_columns(schema(), settings())
    assert columns.role_of({"id": "o-Todo", "name": "Renamed"}) is CardStatus.todo
    assert columns.role_of({"id": "unheard", "name": "todo"}) is CardStatus.todo
    assert columns.role_of({"id": "unheard", "name": "Backlog"}) is CardStatus.other
    assert columns.role_of(None) is CardStatus.other


def test_option_we_know_as_something_else_is_not_taken_by_its_name() -> None:
    board = schema(Status={"id": "st", **select("Todo", "InProgress", "Complete", "Failed", "Someday")})
    columns = read_columns(board, settings())
    assert columns.role_of({"id": "o-Someday", "name": "Todo"}) is CardStatus.other


def test_ranks() -> None:
    columns = read_columns(schema(), settings())
    assert [columns.rank_of(name, f"o-{name}") for name in ("Urgent", "High", "Low")] == [0, 1, 2]
    assert columns.rank_of("New", "o-new") == 3
    assert columns.rank_of(None, None) == math.inf
    numbers = read_columns(schema(Priority={"id": "pr", "type": "number"}), settings(priority_order="descending"))
    assert numbers.rank_of(5, None) < numbers.rank_of(1, None) < numbers.rank_of(None, None)


def test_priority_order_naming_an_unknown_option_is_told() -> None:
    columns = read_columns(schema(), settings(priority_order=["Urgent", "Hihg"]))
    assert problems(columns) == ["option 'Hihg' in column 'Priority' (select)"]


def test_one_error_names_everything_and_what_the_board_has() -> None:
    columns = read_columns(schema(RunId=None, Status=None), settings())
    with pytest.raises(Misconfigured) as raised:
        columns.require_all()
    assert str(raised.value) == (
        "The board lacks column 'Status' (status or select); column 'RunId' (text). The board has: 'Name', 'Priority', "
        "'ClaimedBy', 'LastError', 'ClaimedAt', 'ClaimExpiresAt', 'CompletedAt', 'RetryCount'"
    )
