"""Faults by name and by rate: what each does to a client, what the ledger says, and that a seed draws the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from notion_client import Client

from hermes.testing.clock import FakeClock
from sources.board import PERSON_TOKEN, BoardServer
from sources.board.fault_plan import Plan
from sources.board.named_faults import NAMES

PATCH = "PATCH /v1/pages/{page_id}"
GET = "GET /v1/pages/{page_id}"
QUERY = "POST /v1/data_sources/{data_source_id}/query"


@pytest.fixture
def switch(http: httpx.Client) -> Callable[..., None]:
    """`switch("rate_limited", 460, skip=1)`: a one-shot by its name."""

    def post(name: str, value: Any = None, **more: Any) -> None:
        answer = http.post("/_board/faults", json={"name": name, "value": value, **more})
        assert answer.status_code == 201, answer.text

    return post


def plan(http: httpx.Client, **rates: Any) -> None:
    answer = http.post("/_board/faults", json={"plan": rates})
    assert answer.status_code == 201, answer.text


def write(http: httpx.Client, page: str, number: int, **options: Any) -> httpx.Response:
    return http.patch(f"/v1/pages/{page}", json={"properties": {"RetryCount": {"number": number}}}, **options)


def read(http: httpx.Client, page: str) -> float | None:
    number: float | None = http.get(f"/v1/pages/{page}").json()["properties"]["RetryCount"]["number"]
    return number


def calls(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/_board/ledger").json()["calls"]
    return found


# -- by name


REFUSALS = {
    "rate_limited": (429, "rate_limited"),
    "workspace_limited": (429, "rate_limited"),
    "request_blocked": (429, "rate_limited"),
    "overloaded": (529, "service_overload"),
    "conflict": (409, "conflict_error"),
    "conflict_400": (400, "conflict_error"),
    "unauthorized": (401, "unauthorized"),
    "restricted": (403, "restricted_resource"),
    "unshared": (404, "object_not_found"),
    "endpoint_removed": (400, "invalid_request_url"),
    "version_retired": (400, "validation_error"),
    "internal_error": (500, "internal_server_error"),
    "unavailable": (503, "service_unavailable"),
    "bad_gateway": (502, None),
    "edge_block": (403, None),
}
COMMITTED = {
    "unavailable_after": (503, "service_unavailable"),
    "committed": (503, "service_unavailable"),
    "bad_gateway_after": (502, None),
    "edge_timeout": (524, None),
}


@pytest.mark.parametrize("name", [*REFUSALS, *COMMITTED])
def test_an_answer_says_so_and_the_ledger_tells_whether_the_write_was_made(
    name: str, tasks: Any, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    http.delete("/_board/ledger")
    switch(name)
    answer = write(http, page, 7)
    status, code = {**REFUSALS, **COMMITTED}[name]
    assert answer.status_code == status
    if code is None:
        assert answer.headers["content-type"].startswith("text/html")
        assert 4_000 < len(answer.content) < 6_000
    else:
        assert answer.json()["code"] == code
    [entry] = calls(http)
    assert (entry["fault"], entry["status"]) == (name, status)
    assert entry["outcome"] == ("applied" if name in COMMITTED else "never")
    assert (entry["applied_at"] is not None) is (name in COMMITTED)
    http.delete("/_board/faults")
    assert read(http, page) == (7 if name in COMMITTED else None)


@pytest.mark.parametrize(("name", "value"), [("lost", None), ("drop", 7)])
def test_a_connection_is_cut_before_or_after(
    name: str, value: Any, tasks: Any, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    http.delete("/_board/ledger")
    switch(name)
    with pytest.raises(httpx.RemoteProtocolError):
        write(http, page, 7)
    assert read(http, page) == value
    entry = calls(http)[0]
    assert (entry["status"], entry["fault"], entry["outcome"]) == (None, name, "applied" if value else "never")


@pytest.mark.parametrize("name", ["truncated", "wrong_json", "login_page"])
def test_an_answer_may_be_none_although_the_write_was_made(
    name: str, tasks: Any, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    switch(name)
    answer = write(http, page, 7)
    assert answer.status_code == 200
    if name == "wrong_json":
        assert "object" not in answer.json()
    else:
        with pytest.raises(json.JSONDecodeError):
            answer.json()
    assert read(http, page) == 7


def test_an_answer_may_trickle(tasks: Any, http: httpx.Client, switch: Callable[..., None]) -> None:
    page = tasks.add("x")
    switch("trickle", 0.01)
    chunks = 0
    with http.stream("PATCH", f"/v1/pages/{page}", json={"properties": {"RetryCount": {"number": 7}}}) as answer:
        for _ in answer.iter_raw():
            chunks += 1
            if chunks == 20:
                break
    assert read(http, page) == 7
    assert chunks == 20


def test_every_name_is_tried_here_or_in_a_test_of_its_own() -> None:
    elsewhere = {
        "hang", "ghost", "ghost_unavailable", "ghost_gateway", "query_lag", "query_missing", "no_filter",
        "cursor_expired", "silent_column", "lost", "drop", "truncated", "wrong_json", "login_page", "trickle",
        *(name for name, named in NAMES.items() if named.scripted),
    }  # fmt: skip
    assert set(NAMES) == {*REFUSALS, *COMMITTED, *elsewhere}


@pytest.mark.parametrize("told", ["NaN", "-5", "soon", "Mon, 05 Jan 2026 09:30:00 GMT"])
def test_retry_after_may_be_any_text(told: str, http: httpx.Client, switch: Callable[..., None]) -> None:
    switch("rate_limited", told)
    assert http.get("/v1/users/me").headers["retry-after"] == told
    assert http.get("/v1/users/me").status_code == 200
    switch("rate_limited", "none")
    assert "retry-after" not in http.get("/v1/users/me").headers


def test_wrong_names_and_values_are_told(http: httpx.Client) -> None:
    for wrong, said in (
        ({"name": "confict"}, "did you mean conflict"),
        ({"name": "hang", "value": "abc"}, "seconds"),
        ({"name": "rename_column", "value": "RunId"}, "OLD>NEW"),
        ({"name": "conflict", "sometimes": 1}, "sometimes"),
        ({"plan": {"conflict": 1.5}}, "between 0 and 1"),
        ({"plan": {"conflict": 0.6, "lost": 0.6}}, "at most 1"),
        ({"plan": {"trash_page": 0.1}}, "no rate"),
        ({"plan": {"seed": "x"}}, "whole number"),
    ):
        answer = http.post("/_board/faults", json=wrong)
        assert answer.status_code == 400
        assert said in answer.json()["error"]


# -- limits


def test_retry_after_holds_until_it_is_over_and_early_calls_are_noted(
    http: httpx.Client, clock: FakeClock, switch: Callable[..., None], connect: Callable[..., Client]
) -> None:
    switch("rate_limited", 460)
    assert http.get("/v1/users/me").headers["retry-after"] == "460"
    clock.advance(timedelta(seconds=400))
    early = http.get("/v1/users/me")
    assert (early.status_code, early.headers["retry-after"]) == (429, "60")
    connect(token="another integration").users.me()
    clock.advance(timedelta(seconds=60))
    assert http.get("/v1/users/me").status_code == 200
    assert [call["early"] for call in calls(http)] == [False, True, False, False]


def test_the_workspace_s_limit_meets_everybody(
    http: httpx.Client, clock: FakeClock, switch: Callable[..., None], board: BoardServer
) -> None:
    switch("workspace_limited", 30)
    http.get("/v1/users/me")
    other = http.get("/v1/users/me", headers={"Authorization": "Bearer another"})
    assert other.status_code == 429
    assert other.json()["additional_data"]["rate_limit_reason"] == "public_api_space_request_rate_limit"
    assert http.get("/v1/users/me", headers={"Authorization": f"Bearer {PERSON_TOKEN}"}).status_code == 200
    clock.advance(timedelta(seconds=30))
    assert http.get("/v1/users/me").status_code == 200


def test_budgets_of_a_minute_are_counted(http: httpx.Client, clock: FakeClock) -> None:
    plan(http, bot_budget=3, workspace_budget=5)
    another = {"Authorization": "Bearer another"}
    assert [http.get("/v1/users/me").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert [http.get("/v1/users/me", headers=another).status_code for _ in range(2)] == [200, 200]
    refused = http.get("/v1/users/me", headers=another)
    assert refused.json()["additional_data"]["rate_limit_reason"] == "public_api_space_request_rate_limit"
    clock.advance(timedelta(seconds=60))
    assert http.get("/v1/users/me").status_code == 200


# -- writes that land late


@pytest.mark.parametrize(("name", "status"), [("ghost", None), ("ghost_unavailable", 503), ("ghost_gateway", 504)])
def test_a_ghost_lands_after_its_client_was_told_something_else(
    name: str, status: int | None, tasks: Any, http: httpx.Client, clock: FakeClock, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    http.delete("/_board/ledger")
    switch(name, 30)
    if status is None:
        with pytest.raises(httpx.RemoteProtocolError):
            write(http, page, 7)
    else:
        assert write(http, page, 7).status_code == status
    sent = clock.now().timestamp()
    assert calls(http)[0]["outcome"] == "pending"
    clock.advance(timedelta(seconds=29))
    assert write(http, page, 1).status_code == 200
    assert read(http, page) == 1
    clock.advance(timedelta(seconds=1))
    assert read(http, page) == 7
    ghost = calls(http)[0]
    assert (ghost["outcome"], ghost["applied_at"], ghost["status"]) == ("applied", sent + 30, status)


def test_a_ghost_lands_although_nobody_looks(
    tasks: Any, board: BoardServer, http: httpx.Client, clock: FakeClock, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    landed = threading.Event()
    switch("ghost_unavailable", 0.2)
    board.board.store.on_commit.append(lambda changes: landed.set() if page in changes else None)
    write(http, page, 7)
    clock.advance(timedelta(seconds=1))
    assert landed.wait(10)


def test_a_ghost_of_a_refused_write_changes_nothing(
    tasks: Any, http: httpx.Client, clock: FakeClock, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    http.delete("/_board/ledger")
    switch("ghost_unavailable", 5)
    http.patch(f"/v1/pages/{page}", json={"properties": {"Nope": {"number": 1}}})
    clock.advance(timedelta(seconds=5))
    assert calls(http)[0]["outcome"] == "refused"


def test_a_client_that_gave_up_has_written_all_the_same(
    tasks: Any, board: BoardServer, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    switch("hang", 0.3)
    landed = threading.Event()
    board.board.store.on_commit.append(lambda changes: landed.set() if page in changes else None)
    with pytest.raises(httpx.ReadTimeout):
        write(http, page, 7, timeout=0.05)
    assert not landed.is_set()
    assert landed.wait(10)
    assert read(http, page) == 7


# -- queries and columns


def test_a_query_lags(tasks: Any, clock: FakeClock, switch: Callable[..., None]) -> None:
    old, moved = tasks.add("old"), tasks.add("moved")
    clock.advance(timedelta(seconds=60))
    tasks.add("new")
    tasks.patch(old, Status={"status": {"name": "Complete"}})
    tasks.client.pages.update(moved, in_trash=True)
    clock.advance(timedelta(seconds=10))
    todo = {"property": "Status", "status": {"equals": "Todo"}}
    switch("query_lag", 30)
    assert tasks.titles(todo) == ["moved", "old"]
    assert tasks.titles(todo) == ["new"]
    switch("query_lag", 5)
    assert tasks.titles(todo) == ["new"]


def test_a_query_leaves_out_what_is_being_indexed(tasks: Any, clock: FakeClock, switch: Callable[..., None]) -> None:
    old = tasks.add("old")
    clock.advance(timedelta(seconds=60))
    tasks.add("new")
    switch("query_missing", 30)
    assert tasks.titles() == ["old"]
    tasks.patch(old, RetryCount={"number": 1})
    switch("query_missing", 30)
    assert tasks.titles() == []
    clock.advance(timedelta(seconds=31))
    switch("query_missing", 30)
    assert tasks.titles() == ["new", "old"]


def test_a_filter_is_dropped_and_a_cursor_expires(tasks: Any, http: httpx.Client, switch: Callable[..., None]) -> None:
    for title in ("1", "2", "3"):
        tasks.add(title)
    switch("no_filter")
    none = {"property": "Status", "status": {"equals": "Failed"}}
    assert len(tasks.titles(none)) == 3
    assert tasks.titles(none) == []
    switch("cursor_expired", times=-1)
    path = f"/v1/data_sources/{tasks.source_id}/query"
    first = http.post(path, json={"page_size": 2}).json()
    assert len(first["results"]) == 2
    refused = http.post(path, json={"page_size": 2, "start_cursor": first["next_cursor"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "validation_error")


def test_an_unknown_column_is_passed_over_silently(tasks: Any, http: httpx.Client, switch: Callable[..., None]) -> None:
    page = tasks.add("x")
    values = {"properties": {"Nope": {"number": 1}, "RetryCount": {"number": 7}}}
    assert http.patch(f"/v1/pages/{page}", json=values).status_code == 400
    switch("silent_column")
    answer = http.patch(f"/v1/pages/{page}", json=values)
    assert answer.status_code == 200
    assert "Nope" not in answer.json()["properties"]
    assert read(http, page) == 7


# -- people


def test_people_change_the_board_before_or_after_the_nth_call(
    tasks: Any, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page, other = tasks.add("x"), tasks.add("y")

    def now() -> Any:
        return http.get(f"/v1/pages/{page}").json()

    switch("set_option", "Status/Complete", route=PATCH, page_id=page, skip=1, when="after")
    write(http, page, 1)
    write(http, other, 1)
    assert now()["properties"]["Status"]["status"]["name"] == "Todo"
    told = write(http, page, 2).json()
    assert told["properties"]["Status"]["status"]["name"] == "Todo"
    shown = now()
    assert shown["properties"]["Status"]["status"]["name"] == "Complete"
    assert shown["last_edited_by"]["id"].endswith("0a")

    switch("rename_column", "RetryCount>Tries", route=PATCH)
    assert write(http, page, 3).status_code == 400
    switch("rename_option", "Status/Complete>Done", route=GET)
    assert now()["properties"]["Status"]["status"]["name"] == "Done"
    switch("delete_option", "Status/Failed", route=QUERY)
    failed = {"filter": {"property": "Status", "status": {"equals": "Failed"}}}
    http.post(f"/v1/data_sources/{tasks.source_id}/query", json=failed)
    schema = http.get(f"/v1/data_sources/{tasks.source_id}").json()["properties"]
    assert "Failed" not in [option["name"] for option in schema["Status"]["status"]["options"]]
    switch("delete_column", "RunId", route=GET)
    assert "RunId" not in now()["properties"]
    switch("trash_page", route=PATCH, page_id=other)
    assert write(http, other, 9).status_code == 400
    switch("trash_board", route=PATCH, page_id=page)
    assert http.patch(f"/v1/pages/{page}", json={"properties": {"Tries": {"number": 1}}}).status_code == 400


def test_a_person_moves_a_page_to_another_board(
    tasks: Any, client: Client, http: httpx.Client, switch: Callable[..., None]
) -> None:
    page = tasks.add("x")
    made = client.databases.create(
        parent={"type": "page_id", "page_id": "b0a4d000-0000-4000-8000-000000000001"},
        title=[{"text": {"content": "Other"}}],
        initial_data_source={"properties": {"Name": {"title": {}}}},
    )
    other = made["data_sources"][0]["id"]
    switch("move_page", other, route=PATCH, when="after")
    assert write(http, page, 1).status_code == 200
    assert http.get(f"/v1/pages/{page}").json()["parent"]["data_source_id"] == other


# -- by rate


RATES = {"seed": 7, "conflict": 0.2, "unavailable_after": 0.1, "lost": 0.1, "rate_limited": {"rate": 0.1, "value": "0"}}


def met(http: httpx.Client, pages: list[str], order: list[int]) -> dict[str, list[str | None]]:
    """What the writes of each page met, whatever order they are sent in."""
    http.delete("/_board/ledger")
    plan(http, **RATES)
    for index in order:
        try:
            write(http, pages[index], 1)
        except httpx.RemoteProtocolError:
            continue
    found: dict[str, list[str | None]] = {page: [] for page in pages}
    for call in calls(http):
        found[call["objects"][0]].append(call["fault"])
    return found


def test_a_seed_draws_the_same_whatever_runs_beside_it(tasks: Any, http: httpx.Client) -> None:
    pages = [tasks.add(str(number)) for number in range(4)]
    one_after_the_other = [index for index in range(4) for _ in range(40)]
    first = met(http, pages, one_after_the_other)
    assert met(http, pages, list(range(4)) * 40) == first
    drawn = [name for names in first.values() for name in names]
    assert 15 < drawn.count("conflict") < 50
    assert {"unavailable_after", "lost", "rate_limited", None} <= set(drawn)


def test_another_seed_draws_others() -> None:
    def drawn(seed: int) -> list[str]:
        plan = Plan.of({"seed": seed, "conflict": 0.5})
        return ["conflict" if plan.draw(PATCH, True, ["page"]) else "" for _ in range(64)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_rates_are_kept() -> None:
    plan = Plan.of({"seed": 3, "conflict": 0.05, "ghost": {"rate": 0.03, "value": 2}, "query_lag": 0.2})
    drawn = [plan.draw(PATCH, True, [str(number)]) for number in range(20_000)]
    names = [fault.name for fault in drawn if fault]
    assert 900 < names.count("conflict") < 1100
    assert 520 < names.count("ghost") < 680
    assert "query_lag" not in names
    ghosts = [fault.seconds for fault in drawn if fault and fault.name == "ghost"]
    assert 0 <= min(ghosts) < 0.1
    assert 1.9 < max(ghosts) < 2
    assert [plan.draw(GET, False, ["x"]) for _ in range(100)] == [None] * 100


def test_a_plan_spares_people_and_can_be_for_some_bots_only(tasks: Any, http: httpx.Client) -> None:
    page = tasks.add("x")
    person = {"Authorization": f"Bearer {PERSON_TOKEN}"}
    plan(http, conflict=1.0)
    assert write(http, page, 1).status_code == 409
    assert write(http, page, 1, headers=person).status_code == 200
    bot = http.get("/v1/users/me").json()["id"]
    plan(http, conflict=1.0, bots=[bot])
    assert write(http, page, 2).status_code == 409
    assert write(http, page, 2, headers={"Authorization": "Bearer another"}).status_code == 200
    assert http.get("/_board/faults").json()["plan"] == {"seed": 1, "bots": [bot], "conflict": 1.0}
    http.delete("/_board/faults")
    assert write(http, page, 3).status_code == 200


def test_the_docs_tell_every_fault() -> None:
    docs = (Path(__file__).parents[3] / "docs" / "faults.md").read_text(encoding="utf-8")
    for name, named in NAMES.items():
        row = f"| `{name}` | {named.calls} | {named.does} | {named.notion} | `{named.example}` |"
        assert row in docs
