"""Adding what a board lacks: shown first, added once, never more than was shown."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.errors import Gone, UnknownOutcome
from sources.notion import BoardSettings
from sources.notion.init import AddColumn, AddOption, apply_plan, create_board, plan_board
from sources.notion.locate import locate

BARE = {
    "Status": {"select": {"options": [{"name": "Todo", "color": "red"}, {"name": "Later"}]}},
    "Priority": None,
    "ClaimedBy": None,
    "RunId": None,
    "RetryCount": None,
    "Description": None,
}


def column(bench: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = bench.client.read("GET", f"data_sources/{bench.source}")["properties"][name]
    return found


def test_plan_is_data_and_reads_only(make_bench: Any) -> None:
    bench = make_bench(columns=BARE)
    plan = plan_board(bench.board.client, bench.board.settings)
    assert set(plan.additions) == {
        AddOption("Status", "select", "InProgress"),
        AddOption("Status", "select", "Complete"),
        AddOption("Status", "select", "Failed"),
        AddColumn("Priority", "select", ("Urgent", "High", "Medium", "Low")),
        AddColumn("ClaimedBy", "rich_text"),
        AddColumn("RunId", "rich_text"),
        AddColumn("RetryCount", "number"),
    }
    assert not plan.complete
    assert "+ column 'Priority' (select: Urgent, High, Medium, Low)" in plan.render()
    assert "+ option 'Failed' in column 'Status'" in plan.render()
    assert not any(route.startswith("PATCH") for route in bench.calls())


def test_apply_makes_the_board_usable_and_a_second_time_adds_nothing(make_bench: Any) -> None:
    bench = make_bench(columns=BARE)
    client, settings = bench.board.client, bench.board.settings
    plan = plan_board(client, settings)
    applied = apply_plan(client, settings, plan)
    assert set(applied.done) == set(plan.additions)
    assert applied.left.complete
    assert bench.board.open_cards() == []
    options = column(bench, "Status")["select"]["options"]
    assert [option["name"] for option in options] == ["Todo", "Later", "InProgress", "Complete", "Failed"]
    assert options[0]["color"] == "red"
    bench.calls()
    again = apply_plan(client, settings, plan_board(client, settings))
    assert (again.done, again.left.complete) == ((), True)
    assert apply_plan(client, settings, plan).done == ()
    assert not any(route.startswith("PATCH") for route in bench.calls())


def test_cards_keep_their_values(make_bench: Any) -> None:
    bench = make_bench(columns=BARE)
    page = bench.add("kept")
    client, settings = bench.board.client, bench.board.settings
    apply_plan(client, settings, plan_board(client, settings))
    [card] = bench.board.open_cards()
    assert (card.id, card.title, card.status_name) == (page, "kept", "Todo")


def test_what_people_added_meanwhile_is_not_added_again_and_what_they_deleted_is_not_added_unseen(
    make_bench: Any,
) -> None:
    bench = make_bench(columns={"RunId": None})
    client, settings = bench.board.client, bench.board.settings
    plan = plan_board(client, settings)
    bench.alter(RunId={"rich_text": {}}, ClaimedBy=None)
    applied = apply_plan(client, settings, plan)
    assert applied.done == ()
    assert applied.left.additions == (AddColumn("ClaimedBy", "rich_text"),)


def test_wrong_type_is_left_to_people(make_bench: Any) -> None:
    bench = make_bench(columns={"RunId": {"number": {}}})
    plan = plan_board(bench.board.client, bench.board.settings)
    assert plan.additions == ()
    [words] = plan.by_hand
    assert "'RunId' is of type number, needed: text" in words
    assert "`columns: run_id:`" in words


STATUS = {"status": {"options": [{"name": "Todo"}, {"name": "InProgress"}, {"name": "Complete"}]}}


def test_options_of_a_status_column_are_tried(make_bench: Any) -> None:
    bench = make_bench(columns={"Status": STATUS})
    client, settings = bench.board.client, bench.board.settings
    applied = apply_plan(client, settings, plan_board(client, settings))
    assert applied.done == (AddOption("Status", "status", "Failed"),)
    assert applied.left.complete


def test_options_of_a_status_column_that_notion_refuses_are_explained(make_bench: Any) -> None:
    bench = make_bench(columns={"Status": STATUS, "RunId": None})
    client, settings = bench.board.client, bench.board.settings
    plan = plan_board(client, settings)
    bench.fault(
        kind="answer", route="PATCH /v1/data_sources/{data_source_id}", skip=1, status=400, code="validation_error",
        message="Status options cannot be changed.",
    )  # fmt: skip
    applied = apply_plan(client, settings, plan)
    assert applied.done == (AddColumn("RunId", "rich_text"),)
    assert applied.left.additions == ()
    [words] = applied.left.by_hand
    assert "'Failed'" in words
    assert "Edit property" in words


@pytest.mark.parametrize("under_a_page", [True, False], ids=["under a page", "at the root"])
def test_new_board_has_everything_and_is_made_once(bench: Any, under_a_page: bool) -> None:
    client = bench.board.client
    settings = BoardSettings(connection="local", board="new", statuses={"todo": "A fazer", "attention": "Ajuda"})
    parent = f"https://www.notion.so/Root-{bench.server.root_page_id.replace('-', '')}" if under_a_page else None
    title = f"New board {under_a_page}"
    first = create_board(client, settings, title=title, parent_page=parent)
    second = create_board(client, settings, title=title, parent_page=parent)
    assert (first.created, second.created) == (True, False)
    assert first.located.data_source_id == second.located.data_source_id
    assert plan_board(client, settings, located=first.located).complete
    found = client.read("GET", f"data_sources/{first.located.data_source_id}")["properties"]
    assert [option["name"] for option in found["Status"]["select"]["options"]] == [
        "A fazer", "InProgress", "Complete", "Failed", "Ajuda",
    ]  # fmt: skip
    assert "Description" in found


def test_new_board_of_unknown_outcome_is_found_the_second_time(bench: Any) -> None:
    client, settings = bench.board.client, bench.board.settings
    bench.fault(kind="drop", route="POST /v1/databases")
    with pytest.raises(UnknownOutcome, match="Run it again"):
        create_board(client, settings, title="Lost answer", parent_page=bench.server.root_page_id)
    again = create_board(client, settings, title="Lost answer", parent_page=bench.server.root_page_id)
    assert not again.created
    assert locate(client, again.located.data_source_id).data_source_name == "Lost answer"


def test_new_board_under_a_page_that_cannot_be_seen(bench: Any) -> None:
    with pytest.raises(Gone):
        create_board(bench.board.client, bench.board.settings, title="x", parent_page="f" * 32)
