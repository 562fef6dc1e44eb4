"""What every call has in common: tokens, versions, routes, bodies, the envelope of refusals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from notion_client import APIResponseError, Client

from hermes.testing.clock import FakeClock
from sources.board import ROOT_PAGE_ID, BoardInUse, BoardServer, running

PAGE = f"/v1/pages/{ROOT_PAGE_ID}"


def test_a_refusal_has_notions_envelope_and_headers(http: httpx.Client) -> None:
    answer = http.get("/v1/pages/11111111-1111-4111-8111-111111111111")
    body = answer.json()
    assert answer.status_code == 404
    assert body["object"] == "error"
    assert body["status"] == 404
    assert body["code"] == "object_not_found"
    assert body["message"].startswith("Could not find page with ID: 11111111-1111-4111-8111-111111111111. Make sure")
    assert body["additional_data"]["integration_id"]
    assert answer.headers["x-notion-request-id"] == body["request_id"]
    assert answer.headers["date"] == "Mon, 05 Jan 2026 09:00:00 GMT"


@pytest.mark.parametrize("header", [None, "Bearer", "Basic abc", "abc"])
def test_a_call_without_a_token_is_unauthorized(board: BoardServer, header: str | None) -> None:
    headers = {"Notion-Version": "2026-03-11"} | ({} if header is None else {"Authorization": header})
    answer = httpx.get(f"{board.url}/v1/users/me", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert answer.json()["message"] == "API token is invalid."


def test_only_configured_tokens_are_accepted_and_have_their_names(tmp_path: Path) -> None:
    with running(tmp_path / "b.db", tokens={"one": "First"}) as server:
        with Client(auth="one", base_url=server.url) as client:
            assert client.users.me()["name"] == "First"
        with (
            Client(auth="two", base_url=server.url, log_level=60) as client,
            pytest.raises(APIResponseError) as refused,
        ):
            client.users.me()
    assert refused.value.code == "unauthorized"


def test_another_token_is_another_author_and_stays_so_after_a_restart(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with running(tmp_path / "b.db") as server:
            for token in ("a", "b"):
                with Client(auth=token, base_url=server.url) as client:
                    seen.append(client.users.me()["id"])
    assert seen[0] != seen[1]
    assert seen[:2] == seen[2:]


def test_an_unknown_route_is_an_invalid_url_even_without_a_token(board: BoardServer) -> None:
    answer = httpx.get(f"{board.url}/v1/invalid")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request_url")


def test_a_missing_version_is_named_and_a_strange_one_refused(board: BoardServer) -> None:
    headers = {"Authorization": "Bearer x"}
    assert httpx.get(f"{board.url}{PAGE}", headers=headers).json()["code"] == "missing_version"
    strange = httpx.get(f"{board.url}{PAGE}", headers={**headers, "Notion-Version": "2020-01-01"})
    assert (strange.status_code, strange.json()["code"]) == (400, "validation_error")


def test_routes_of_another_version_are_invalid_urls(connect: Callable[..., Client]) -> None:
    for version, path in (
        ("2022-06-28", f"data_sources/{ROOT_PAGE_ID}"),
        ("2026-03-11", f"databases/{ROOT_PAGE_ID}/query"),
    ):
        with pytest.raises(APIResponseError) as refused:
            connect(version=version).request(path, "POST" if path.endswith("query") else "GET")
        assert refused.value.code == "invalid_request_url"


def test_ids_may_come_without_dashes_and_in_capitals_but_must_be_uuids(http: httpx.Client) -> None:
    assert http.get(f"/v1/pages/{ROOT_PAGE_ID.replace('-', '').upper()}").status_code == 200
    refused = http.get("/v1/pages/12345678-1234-1234-1234-123456789abc").json()
    assert refused["message"] == (
        "path failed validation: path.page_id should be a valid uuid, "
        'instead was `"12345678-1234-1234-1234-123456789abc"`.'
    )
    assert http.get("/v1/pages/00000000-0000-0000-0000-000000000000").status_code == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"[" * 50_000])
def test_a_body_that_is_no_json_object_is_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v1/search", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("junk", [r'"half \ud800"', "NaN", "Infinity", "1e999", "1" + "0" * 400])
def test_a_value_that_no_client_could_read_back_is_refused(http: httpx.Client, junk: str) -> None:
    """Half of a surrogate pair cannot be encoded, and no double holds the numbers."""
    answer = http.post("/v1/search", content=f'{{"query": {junk}}}'.encode())
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


def test_a_body_over_500_kilobytes_is_refused(http: httpx.Client) -> None:
    answer = http.post("/v1/search", json={"query": "x" * 513_000})
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_minutes_are_floored_in_object_times(client: Client, clock: FakeClock) -> None:
    clock.advance(timedelta(seconds=59, milliseconds=900))
    page = client.pages.create(parent={"page_id": ROOT_PAGE_ID}, properties={"title": [{"text": {"content": "x"}}]})
    assert page["created_time"] == page["last_edited_time"] == "2026-01-05T09:00:00.000Z"


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path / "b.db") as server, Client(auth="x", base_url=server.url) as client:
        made = client.pages.create(parent={"page_id": ROOT_PAGE_ID}, properties={"title": [{"text": {"content": "x"}}]})
    with running(tmp_path / "b.db") as server, Client(auth="x", base_url=server.url) as client:
        again = client.pages.retrieve(made["id"])
    assert {**again, "request_id": ""} == {**made, "request_id": ""}


def test_a_board_is_served_by_one_process_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path / "b.db"), pytest.raises(BoardInUse), running(tmp_path / "b.db"):
        pass
    with running(tmp_path / "b.db"):
        pass


def test_an_error_of_ours_is_answered_as_notions_internal_error(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("sources.board.pages.render", broken)
    answer = http.get(PAGE)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_server_error")
