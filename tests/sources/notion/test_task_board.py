"""The adapter on the local board: real HTTP, the real client, and one call where the port says one call."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes.errors import Conflict, Fatal, Gone, Misconfigured, Retryable, UnknownOutcome
from hermes.model.card import CardStatus, CardValues
from hermes.testing.limiter import NotedLimiter
from sources.notion import BoardSettings, NotionConnection, open_board
from sources.notion.answers import PartlyWritten, RateLimited
from sources.notion.task_board import SCHEMA_AGE

NOW = datetime(2026, 1, 5, 9, 0, 40, tzinfo=UTC)
QUERY = "POST /v1/data_sources/{data_source_id}/query"
SCHEMA = "GET /v1/data_sources/{data_source_id}"
READ = "GET /v1/pages/{page_id}"
WRITE = "PATCH /v1/pages/{page_id}"
APPEND = "PATCH /v1/blocks/{block_id}/children"
LIST = "GET /v1/blocks/{block_id}/children"
CLAIM = CardValues(
    status=CardStatus.in_progress,
    claimed_by="hermes/inst:boot",
    run_id="run-1",
    claimed_at=NOW,
    claim_expires_at=NOW + timedelta(minutes=15),
)
FAIL = CardValues(status=CardStatus.failed, completed_at=NOW, last_error="it broke", retry_count=3)


def titles(bench: Any) -> list[str]:
    return [card.title for card in bench.board.open_cards()]


def priority(name: str | None) -> dict[str, Any]:
    return {"select": {"name": name} if name else None}


def status(name: str) -> dict[str, Any]:
    return {"select": {"name": name}}


# Queries


def test_open_cards_are_sorted_by_priority_and_the_unprioritised_come_last(bench: Any) -> None:
    for title, name in (("none", None), ("low", "Low"), ("urgent", "Urgent"), ("high", "High")):
        bench.add(title, Priority=priority(name))
    assert titles(bench) == ["urgent", "high", "low", "none"]


def test_priority_order_of_the_settings_wins_over_the_boards(make_bench: Any) -> None:
    bench = make_bench(priority_order=["Low", "High"])
    for title, name in (("urgent", "Urgent"), ("high", "High"), ("low", "Low"), ("none", None)):
        bench.add(title, Priority=priority(name))
    assert titles(bench) == ["low", "high", "urgent", "none"]


@pytest.mark.parametrize(("order", "expected"), [(None, ["1", "2", "none"]), ("descending", ["2", "1", "none"])])
def test_priority_may_be_a_number(make_bench: Any, order: str | None, expected: list[str]) -> None:
    bench = make_bench(columns={"Priority": {"number": {}}}, priority_order=order)
    for title, number in (("none", None), ("2", 2), ("1", 1)):
        bench.add(title, Priority={"number": number})
    assert titles(bench) == expected


def test_board_without_priorities(make_bench: Any) -> None:
    bench = make_bench(columns={"Priority": None}, names={"priority": None})
    bench.add("first")
    bench.add("second")
    assert sorted(titles(bench)) == ["first", "second"]


def test_only_todo_and_in_progress_are_open(bench: Any) -> None:
    for name in ("Todo", "InProgress", "Complete", "Failed"):
        bench.add(name, Status=status(name))
    assert sorted(titles(bench)) == ["InProgress", "Todo"]


def test_more_than_a_hundred_cards_are_paged(bench: Any) -> None:
    for number in range(103):
        bench.add(f"card {number}")
    bench.board.open_cards()
    bench.calls()
    assert len(bench.board.open_cards()) == 103
    assert bench.calls() == {QUERY: 2}


def test_one_query_is_one_call(bench: Any) -> None:
    bench.add()
    bench.board.open_cards()
    bench.calls()
    bench.board.open_cards()
    assert bench.calls() == {QUERY: 1}


def test_unreadable_page_is_skipped_and_the_others_go_on(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add("good")
    bad = bench.add("bad")
    fetch = bench.board._query

    def spoilt(columns: Any) -> Any:
        pages = fetch(columns)
        for page in pages:
            if page["id"] == bad:
                page["created_time"] = "yesterday"
        return pages

    monkeypatch.setattr(bench.board, "_query", spoilt)
    assert titles(bench) == ["good"]
    assert [error.record_id for error in bench.board.skipped] == [bad]


def test_end_of_a_query_at_ten_thousand_is_noticed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add()
    pages = bench.board.client.pages

    def capped(*args: Any, **kwargs: Any) -> Any:
        for answer in pages(*args, **kwargs):
            state = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
            yield {**answer, "request_status": state}

    monkeypatch.setattr(bench.board.client, "pages", capped)
    bench.board.open_cards()
    assert bench.board.incomplete == "query_result_limit_reached"
    monkeypatch.undo()
    bench.board.open_cards()
    assert bench.board.incomplete is None


# Reading one card


def test_read_is_one_call_and_sees_a_write_at_once(bench: Any) -> None:
    page = bench.add("Title", Description={"rich_text": [{"text": {"content": "what to do"}}]})
    bench.board.open_cards()
    bench.calls()
    card = bench.board.read(page)
    assert (card.title, card.description, card.status) == ("Title", "what to do", CardStatus.todo)
    assert bench.calls() == {READ: 1}


def test_trashed_card_is_read_with_its_flag_and_refuses_writes(bench: Any) -> None:
    page = bench.add()
    bench.client.write("PATCH", f"pages/{page}", {"in_trash": True})
    assert bench.board.read(page).in_trash
    with pytest.raises(Gone):
        bench.board.write(page, CLAIM)
    assert titles(bench) == []


def test_unknown_card_is_gone(bench: Any) -> None:
    with pytest.raises(Gone):
        bench.board.read("11111111-2222-4333-8444-555555555555")
    with pytest.raises(Gone):
        bench.board.read("nonsense")


def test_card_that_moved_to_another_board_is_gone(make_bench: Any) -> None:
    bench, other = make_bench(), make_bench(title="Other")
    with pytest.raises(Gone, match="moved away"):
        bench.board.read(other.add("elsewhere"))


def test_body_comes_as_markdown(bench: Any) -> None:
    page = bench.add()
    bench.client.write("PATCH", f"blocks/{page}/children", {"children": [
        {"type": "heading_2", "heading_2": {"rich_text": [{"text": {"content": "Goal"}}]}},
        {"type": "bulleted_list_item", "bulleted_list_item": {"rich_text": [{"text": {"content": "one"}}]}},
    ]})  # fmt: skip
    assert bench.board.read_body(page) == "## Goal\n- one"


def test_columns_are_there_for_filters_by_their_names(make_bench: Any) -> None:
    kinds = {"Size": "number", "Done": "checkbox", "Due": "date", "Link": "url", "Mail": "email", "Who": "people"}
    tags = {"multi_select": {"options": [{"name": "a"}, {"name": "b"}]}}
    bench = make_bench(columns={"Tags": tags, **{name: {kind: {}} for name, kind in kinds.items()}})
    page = bench.add(
        Tags={"multi_select": [{"name": "b"}, {"name": "a"}]},
        Size={"number": 2.5},
        Done={"checkbox": True},
        Due={"date": {"start": "2026-01-05"}},
        Link={"url": "https://example.com"},
        Mail={"email": "a@example.com"},
        Who={"people": [{"id": bench.server.person_id}]},
    )
    properties = bench.board.read(page).properties
    assert properties["Tags"] == ["b", "a"]
    assert (properties["Size"], properties["Done"], properties["Due"]) == (2.5, True, "2026-01-05")
    assert (properties["Link"], properties["Mail"]) == ("https://example.com", "a@example.com")
    assert properties["Who"] == ["Person at the board"]
    assert properties["Status"] == "Todo"


# Writing


def test_claim_is_one_patch_and_its_answer_is_the_card(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.calls()
    card = bench.board.write(page, CLAIM)
    assert bench.calls() == {WRITE: 1}
    assert (card.status, card.claimed_by, card.run_id) == (CardStatus.in_progress, "hermes/inst:boot", "run-1")
    assert card.claimed_at == datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    assert card.claim_expires_at == datetime(2026, 1, 5, 9, 16, tzinfo=UTC)
    assert card.edited_by == bench.board.whoami()


def test_absent_key_is_left_alone_and_none_clears(bench: Any) -> None:
    page = bench.add("Title")
    bench.board.write(page, CLAIM)
    cleared = CardValues(status=CardStatus.todo, claimed_by=None, claimed_at=None, claim_expires_at=None)
    card = bench.board.write(page, cleared)
    assert (card.status, card.claimed_by, card.claimed_at, card.claim_expires_at) == (CardStatus.todo, None, None, None)
    assert (card.title, card.run_id) == ("Title", "run-1")


def test_claims_wait_their_turn_and_what_keeps_or_ends_a_claim_goes_first(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.limiter.urgent.clear()
    bench.board.write(page, CLAIM)
    bench.board.write(page, CardValues(claim_expires_at=NOW + timedelta(hours=1)))
    bench.board.write(page, FAIL)
    assert bench.limiter.urgent == [False, True, True]


def test_attention_is_shown_as_failed_where_the_board_has_no_option_for_it(bench: Any) -> None:
    card = bench.board.write(bench.add(), CardValues(status=CardStatus.attention))
    assert (card.status, card.status_name) == (CardStatus.failed, "Failed")


def test_attention_has_its_own_option_where_the_settings_name_one(make_bench: Any) -> None:
    names = ("Todo", "InProgress", "Complete", "Failed", "Help")
    bench = make_bench(
        columns={"Status": {"select": {"options": [{"name": name} for name in names]}}}, statuses={"attention": "Help"}
    )
    card = bench.board.write(bench.add(), CardValues(status=CardStatus.attention))
    assert (card.status, card.status_name) == (CardStatus.attention, "Help")


def test_conflict_and_limit_write_nothing_and_are_not_repeated(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.calls()
    bench.fault(
        kind="answer", route=WRITE, status=409, code="conflict_error", message="Conflict occurred while saving."
    )
    with pytest.raises(Conflict):
        bench.board.write(page, CLAIM)
    bench.fault(kind="answer", route=WRITE, status=429, code="rate_limited", headers={"Retry-After": "460"})
    with pytest.raises(RateLimited) as raised:
        bench.board.write(page, CLAIM)
    assert raised.value.retry_after == 460
    assert bench.limiter.pauses == [460]
    assert bench.calls() == {WRITE: 2}
    assert bench.board.read(page).status is CardStatus.todo


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "answer_after", "status": 502, "html": "<html><title>502 Bad Gateway</title></html>"},
        {"kind": "answer_after", "status": 503, "code": "service_unavailable"},
        {"kind": "drop"},
    ],
)
def test_write_that_landed_without_an_answer_is_of_unknown_outcome(bench: Any, fault: dict[str, Any]) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.calls()
    bench.fault(route=WRITE, **fault)
    with pytest.raises(UnknownOutcome):
        bench.board.write(page, CLAIM)
    assert bench.calls() == {WRITE: 1}
    assert bench.board.read(page).run_id == "run-1"


def test_write_that_hangs_is_of_unknown_outcome_within_the_deadline(make_bench: Any) -> None:
    bench = make_bench(timeout_seconds=0.4)
    page = bench.add()
    bench.board.open_cards()
    bench.fault(kind="hang", route=WRITE, seconds=1)
    with pytest.raises(UnknownOutcome, match="in time"):
        bench.board.write(page, CLAIM)


def test_write_that_says_it_was_committed_is_read_back(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.calls()
    committed = {"committed_resource_id": page}
    bench.fault(kind="answer_after", route=WRITE, status=503, code="service_unavailable", additional_data=committed)
    assert bench.board.write(page, CLAIM).run_id == "run-1"
    assert bench.calls() == {WRITE: 1, READ: 1}


def test_success_that_left_a_column_out_names_it(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = bench.add()
    bench.board.open_cards()
    write = bench.board.client.write

    def silent(method: str, path: str, body: dict[str, Any], **options: Any) -> Any:
        answer = write(method, path, body, **options)
        answer["properties"].pop("RunId")
        return answer

    monkeypatch.setattr(bench.board.client, "write", silent)
    with pytest.raises(PartlyWritten, match="'RunId'") as raised:
        bench.board.write(page, CLAIM)
    # The rest of the write is there: whoever keeps a log must not note it as refused.
    assert isinstance(raised.value, Misconfigured)
    assert isinstance(raised.value, UnknownOutcome)


def test_success_that_shows_something_else_is_of_unknown_outcome(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = bench.add()
    bench.board.open_cards()
    unchanged = bench.client.read("GET", f"pages/{page}")
    monkeypatch.setattr(bench.board.client, "write", lambda *_, **__: unchanged)
    with pytest.raises(UnknownOutcome, match="'Status'"):
        bench.board.write(page, CLAIM)


# Columns that change under a running board


def test_rename_of_columns_and_options_does_no_harm(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.alter(RunId={"name": "Lauf"}, ClaimedBy={"name": "Wer"}, Status={"name": "Stand"})
    assert bench.board.write(page, CLAIM).run_id == "run-1"
    assert bench.board.read(page).status is CardStatus.in_progress
    assert [card.id for card in bench.board.open_cards()] == [page]


def test_deleted_column_stops_claiming_with_its_name_and_running_cards_finish(bench: Any) -> None:
    running, waiting = bench.add("running"), bench.add("waiting")
    bench.board.write(running, CLAIM)
    bench.alter(RunId=None)
    with pytest.raises(Misconfigured, match="'RunId'"):
        bench.board.open_cards()
    with pytest.raises(Misconfigured, match="'RunId'"):
        bench.board.write(waiting, CLAIM)
    assert bench.board.write(running, FAIL).status is CardStatus.failed


def test_column_deleted_between_poll_and_claim_is_named_by_the_claim(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.alter(RunId=None)
    with pytest.raises(Misconfigured, match="'RunId'"):
        bench.board.write(page, CLAIM)
    assert bench.board.read(page).status is CardStatus.todo


def test_column_deleted_while_a_card_runs_is_left_out_of_its_last_write(bench: Any) -> None:
    page = bench.add()
    bench.board.write(page, CLAIM)
    bench.alter(LastError=None, CompletedAt=None)
    card = bench.board.write(page, FAIL)
    assert (card.status, card.retry_count) == (CardStatus.failed, 3)


def test_extension_of_a_claim_whose_column_is_gone_reads_instead(bench: Any) -> None:
    page = bench.add()
    bench.board.write(page, CLAIM)
    bench.alter(ClaimExpiresAt=None)
    card = bench.board.write(page, CardValues(claim_expires_at=NOW + timedelta(hours=1)))
    assert (card.run_id, card.claim_expires_at) == ("run-1", None)


def test_deleted_status_option_is_named(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.alter(Status={"select": {"options": [{"name": "Todo"}, {"name": "InProgress"}, {"name": "Complete"}]}})
    with pytest.raises(Misconfigured, match="option 'Failed' in column 'Status'"):
        bench.board.write(page, FAIL)


def test_filter_that_is_refused_is_made_anew_once(bench: Any) -> None:
    bench.add("still here")
    bench.board.open_cards()
    bench.calls()
    mismatch = "database property status does not match filter select"
    bench.fault(kind="answer", route=QUERY, status=400, code="validation_error", message=mismatch)
    assert titles(bench) == ["still here"]
    assert bench.calls() == {QUERY: 2, SCHEMA: 1}
    bench.fault(kind="answer", route=QUERY, status=400, code="validation_error", message=mismatch, times=2)
    with pytest.raises(Fatal):
        bench.board.open_cards()


def test_schema_is_not_trusted_for_long(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add()
    bench.board.open_cards()
    bench.board._columns_at -= SCHEMA_AGE.total_seconds()
    bench.calls()
    bench.board.open_cards()
    assert bench.calls() == {SCHEMA: 1, QUERY: 1}


def test_everything_that_is_missing_is_told_at_once(make_bench: Any) -> None:
    status = {"select": {"options": [{"name": "Todo"}, {"name": "Complete"}]}}
    bench = make_bench(columns={"Status": status, "RunId": None, "RetryCount": {"rich_text": {}}, "Description": None})
    with pytest.raises(Misconfigured) as raised:
        bench.board.open_cards()
    said = str(raised.value)
    for words in (
        "column 'RunId' (text)",
        "column 'RetryCount' is of type rich_text, needed: number",
        "option 'InProgress' in column 'Status' (select)",
        "option 'Failed' in column 'Status' (select)",
    ):
        assert words in said
    assert "Description" not in said.split("The board has")[0]


# Results and comments


def blocks(bench: Any, page: str) -> list[str]:
    rows = [row for answer in bench.client.pages("GET", f"blocks/{page}/children", {}) for row in answer["results"]]
    return ["".join(part["plain_text"] for part in row[row["type"]].get("rich_text", [])) for row in rows]


RESULT = "# Found\n\n" + "\n".join(f"- item {number}" for number in range(250))


def test_result_is_appended_in_calls_of_a_hundred_blocks(bench: Any) -> None:
    page = bench.add()
    bench.board.write_result(page, "run-1/result", RESULT, again=False)
    assert bench.calls() == {APPEND: 3}
    written = blocks(bench, page)
    assert written[0] == "Result [hermes:run-1/result]"
    assert written[1:] == ["Found", *(f"item {number}" for number in range(250))]


def test_short_result_is_one_call(bench: Any) -> None:
    bench.board.write_result(bench.add(), "m", "done", again=False)
    assert bench.calls() == {APPEND: 1}


@pytest.mark.parametrize("landed", [0, 1, 2, 3])
def test_result_is_completed_not_repeated(bench: Any, landed: int) -> None:
    page = bench.add()
    if landed < 3:
        bench.fault(kind="drop" if landed else "answer", route=APPEND, skip=max(0, landed - 1))
        with pytest.raises(UnknownOutcome):
            bench.board.write_result(page, "m", RESULT, again=False)
    else:
        bench.board.write_result(page, "m", RESULT, again=False)
    whole = ["Result [hermes:m]", "Found", *(f"item {number}" for number in range(250))]
    assert len(blocks(bench, page)) == min(landed * 100, 252)
    bench.board.write_result(page, "m", RESULT, again=True)
    assert blocks(bench, page) == whole
    bench.calls()
    bench.board.write_result(page, "m", RESULT, again=True)
    assert bench.calls() == {LIST: 3}


def test_result_is_completed_in_its_place_though_people_wrote_meanwhile(bench: Any) -> None:
    page = bench.add()
    result = "\n".join(f"- item {number}" for number in range(130))
    bench.fault(kind="drop", route=APPEND)
    with pytest.raises(UnknownOutcome):
        bench.board.write_result(page, "m", result, again=False)
    note = {"type": "paragraph", "paragraph": {"rich_text": [{"text": {"content": "a person's note"}}]}}
    bench.client.write("PATCH", f"blocks/{page}/children", {"children": [note]})
    bench.board.write_result(page, "m", result, again=True)
    written = blocks(bench, page)
    assert written[-2:] == ["item 129", "a person's note"]
    assert len(written) == 132


def test_marker_of_another_run_is_not_taken_for_ours(bench: Any) -> None:
    page = bench.add()
    bench.board.write_result(page, "run-10", "ten", again=False)
    bench.board.write_result(page, "run-1", "one", again=True)
    bench.board.comment(page, "run-10", "ten", again=False)
    bench.board.comment(page, "run-1", "one", again=True)
    assert blocks(bench, page) == ["Result [hermes:run-10]", "ten", "Result [hermes:run-1]", "one"]
    assert len(list(bench.board._comments(page))) == 2


def test_refused_middle_of_a_result_is_neither_applied_nor_surely_not(bench: Any) -> None:
    page = bench.add()
    bench.fault(kind="answer", route=APPEND, skip=1, status=429, code="rate_limited", headers={"Retry-After": "60"})
    with pytest.raises(UnknownOutcome, match="1 of 3 parts"):
        bench.board.write_result(page, "m", RESULT, again=False)
    bench.fault(kind="answer", route=APPEND, status=429, code="rate_limited", headers={"Retry-After": "60"})
    with pytest.raises(Retryable):
        bench.board.write_result(bench.add(), "m", RESULT, again=False)


def test_comment_of_unknown_outcome_is_not_made_twice(bench: Any) -> None:
    page = bench.add()
    bench.fault(kind="answer_after", route="POST /v1/comments", status=504, code="gateway_timeout")
    with pytest.raises(UnknownOutcome):
        bench.board.comment(page, "run-1/comment", "It failed.", again=False)
    bench.board.comment(page, "run-1/comment", "It failed.", again=True)
    assert list(bench.board._comments(page)) == ["It failed.\n[hermes:run-1/comment]"]


def test_huge_result_and_comment_are_cut_visibly(bench: Any) -> None:
    page = bench.add()
    bench.board.write_result(page, "m", "\n\n".join("word" for _ in range(3000)), again=False)
    written = blocks(bench, page)
    assert len(written) == 1000
    assert "cut here" in written[-1]
    bench.board.comment(page, "m", "x" * 50_000, again=False)
    [said] = bench.board._comments(page)
    assert "… (cut here: " in said[-100:]
    assert said.endswith("\n[hermes:m]")


def test_section_of_long_blocks_keeps_below_the_size_of_a_request(bench: Any) -> None:
    page = bench.add()
    text = "```\n" + "\n".join("漢" * 70 for _ in range(5000)) + "\n```"
    bench.board.write_result(page, "m", text, again=False)
    assert bench.calls()[APPEND] >= 3
    assert "".join(blocks(bench, page)[1:]).replace("\n", "") == "漢" * 350_000


# The board as a whole


def test_board_opens_while_notion_is_away_and_reads_once_it_is_back(limiter: NotedLimiter) -> None:
    connection = NotionConnection(base_url="http://127.0.0.1:9", timeout_seconds=1)
    board = open_board("team", BoardSettings(connection="local", board="f" * 32), connection, limiter)
    with pytest.raises(Retryable):
        board.open_cards()
    with pytest.raises(Retryable):
        _ = board.key
    board.close()


def test_key_is_the_data_source(bench: Any) -> None:
    assert bench.board.key == bench.source


def test_trashed_board_says_so(bench: Any) -> None:
    bench.add()
    bench.board.open_cards()
    bench.client.write("PATCH", f"data_sources/{bench.source}", {"in_trash": True})
    bench.board._columns_at -= SCHEMA_AGE.total_seconds()
    with pytest.raises(Gone, match="trash"):
        bench.board.open_cards()


def test_description_for_doctor_tells_what_was_found_and_what_is_wrong(make_bench: Any) -> None:
    bench = make_bench(columns={"RunId": None})
    described = bench.board.describe()
    assert described.located.data_source_id == bench.source
    assert described.connection_name == "local"
    assert described.problems == ("column 'RunId' (text)",)
    assert described.statuses[CardStatus.todo] == "Todo"
    assert {column.logical for column in described.columns} >= {"title", "status", "claimed_by"}


def test_threads_share_one_board(bench: Any) -> None:
    pages = [bench.add(f"card {number}") for number in range(8)]
    errors: list[BaseException] = []

    def work(page: str) -> None:
        try:
            bench.board.open_cards()
            bench.board.write(page, CLAIM)
            bench.board.write(page, FAIL)
        except BaseException as exc:  # noqa: BLE001 - told below
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {bench.board.read(page).status for page in pages} == {CardStatus.failed}
