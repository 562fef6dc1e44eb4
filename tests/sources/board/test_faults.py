"""The ledger and the faults that tests switch on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from notion_client import Client

Json = dict[str, Any]
PATCH, GET, QUERY = (
    "PATCH /v1/pages/{page_id}",
    "GET /v1/pages/{page_id}",
    "POST /v1/data_sources/{data_source_id}/query",
)


@pytest.fixture
def fault(http: httpx.Client) -> Callable[..., None]:
    def add(**description: Any) -> None:
        answer = http.post("/_board/faults", json=description)
        assert answer.status_code == 201, answer.text

    return add


def retries(tasks: Any, page: str) -> Any:
    return tasks.read(page)["properties"]["RetryCount"]["number"]


def patch(http: httpx.Client, page: str, number: int) -> httpx.Response:
    return http.patch(f"/v1/pages/{page}", json={"properties": {"RetryCount": {"number": number}}})


def test_the_ledger_counts_by_route_page_and_token(
    tasks: Any, http: httpx.Client, connect: Callable[..., Client]
) -> None:
    page = tasks.add("x")
    assert http.delete("/_board/ledger").status_code == 204
    tasks.patch(page, RetryCount={"number": 1})
    tasks.read(page)
    connect(token="other").pages.retrieve(page)
    connect(token="other").users.me()
    ledger = http.get("/_board/ledger").json()
    assert ledger["total"] == 4
    assert ledger["routes"] == {PATCH: 1, GET: 2, "GET /v1/users/me": 1}
    assert ledger["pages"][page] == {PATCH: 1, GET: 2}
    assert sorted(sum(counts.values()) for counts in ledger["bots"].values()) == [2, 2]
    assert ledger["statuses"] == {"200": 4}
    assert [call["route"] for call in ledger["calls"]] == [PATCH, GET, GET, "GET /v1/users/me"]


@pytest.mark.parametrize(
    ("description", "status", "code"),
    [
        ({"status": 429, "code": "rate_limited", "headers": {"Retry-After": "460"}}, 429, "rate_limited"),
        ({"status": 409, "code": "conflict_error"}, 409, "conflict_error"),
        ({"status": 404, "code": "object_not_found"}, 404, "object_not_found"),
        ({"status": 401, "code": "unauthorized"}, 401, "unauthorized"),
        ({"status": 529, "code": "service_overload"}, 529, "service_overload"),
    ],
)
def test_an_answer_before_handling_changes_nothing_and_comes_once(
    tasks: Any, http: httpx.Client, fault: Callable[..., None], description: Json, status: int, code: str
) -> None:
    page = tasks.add("x")
    fault(kind="answer", route=PATCH, **description)
    answer = patch(http, page, 1)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers.get("retry-after") == description.get("headers", {}).get("Retry-After")
    assert retries(tasks, page) is None
    assert patch(http, page, 1).status_code == 200


def test_a_page_of_html_may_stand_for_an_answer(tasks: Any, http: httpx.Client, fault: Callable[..., None]) -> None:
    fault(kind="answer", status=502, html="<html>Bad gateway</html>")
    answer = http.get("/v1/users/me")
    assert (answer.status_code, answer.headers["content-type"], answer.text) == (
        502,
        "text/html; charset=utf-8",
        "<html>Bad gateway</html>",
    )


def test_a_refusal_after_the_commit_leaves_the_change(
    tasks: Any, http: httpx.Client, fault: Callable[..., None]
) -> None:
    page = tasks.add("x")
    fault(kind="answer_after", route=PATCH, status=503, code="service_unavailable")
    assert patch(http, page, 7).status_code == 503
    assert retries(tasks, page) == 7


def test_a_dropped_connection_leaves_the_change(tasks: Any, http: httpx.Client, fault: Callable[..., None]) -> None:
    page = tasks.add("x")
    fault(kind="drop", route=PATCH)
    with pytest.raises(httpx.RemoteProtocolError):
        patch(http, page, 7)
    assert retries(tasks, page) == 7
    assert http.get("/_board/ledger").json()["statuses"]["None"] == 1


def test_a_hanging_call_commits_late_and_holds_nobody_up(
    tasks: Any, http: httpx.Client, fault: Callable[..., None]
) -> None:
    page = tasks.add("x")
    fault(kind="hang", route=PATCH, seconds=0.5)
    done: list[float] = []
    began = time.monotonic()

    def write() -> None:
        patch(http, page, 7)
        done.append(time.monotonic() - began)

    writer = threading.Thread(target=write)
    writer.start()
    assert retries(tasks, page) is None
    writer.join()
    assert done[0] >= 0.5
    assert retries(tasks, page) == 7


def test_a_hanging_call_commits_although_its_client_has_gone(
    tasks: Any, http: httpx.Client, fault: Callable[..., None]
) -> None:
    page = tasks.add("x")
    fault(kind="hang", route=PATCH, seconds=0.3)
    with pytest.raises(httpx.ReadTimeout):
        http.patch(f"/v1/pages/{page}", json={"properties": {"RetryCount": {"number": 7}}}, timeout=0.05)
    for _ in range(200):
        if retries(tasks, page) == 7:
            return
        threading.Event().wait(0.02)
    pytest.fail("the change never came")


def test_a_fault_waits_for_its_page_and_its_turn(tasks: Any, http: httpx.Client, fault: Callable[..., None]) -> None:
    one, two = tasks.add("1"), tasks.add("2")
    fault(kind="answer", route=PATCH, page_id=two, skip=1, times=2, status=409, code="conflict_error")
    assert [patch(http, page, 1).status_code for page in (one, two, one, two, two, two)] == [
        200,
        200,
        200,
        409,
        409,
        200,
    ]
    assert http.get("/_board/faults").json() == {"pending": []}


def test_queries_may_hide_age_and_ignore_their_filter(
    tasks: Any, http: httpx.Client, fault: Callable[..., None]
) -> None:
    one, two = tasks.add("1"), tasks.add("2")
    todo = {"property": "Status", "status": {"equals": "Todo"}}
    fault(kind="query", route=QUERY, hides=[one])
    assert tasks.titles(todo) == ["2"]
    fault(kind="query", route=QUERY, stale=[two])
    tasks.patch(two, Status={"status": {"name": "Complete"}})
    assert tasks.titles(todo) == ["2", "1"]
    assert tasks.titles(todo) == ["1"]
    fault(kind="query", route=QUERY, ignore_filter=True, times=-1)
    assert tasks.titles(todo) == ["2", "1"]
    assert tasks.titles(todo) == ["2", "1"]
    http.delete("/_board/faults")
    assert tasks.titles(todo) == ["1"]


def test_a_fault_that_is_not_understood_is_refused(http: httpx.Client) -> None:
    for wrong in ({"kind": "explode"}, {"kind": "drop", "when": "now"}, {}):
        answer = http.post("/_board/faults", json=wrong)
        assert answer.status_code == 400
        assert answer.json()["error"]
