"""Every kind of answer, and of no answer, met by the real client over a real connection."""

from __future__ import annotations

import json
import socket
import struct
import traceback
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from hermes.errors import (
    Conflict,
    Fatal,
    Gone,
    Misconfigured,
    Retryable,
    SourceError,
    Unauthorized,
    UnknownOutcome,
)
from hermes.testing.limiter import NotedLimiter
from hermes.testing.odd_server import OddServer, http_answer
from sources.notion import NotionClient, NotionConnection
from sources.notion.answers import (
    LONGEST_SECONDS,
    NO_HINT_SECONDS,
    Blocked,
    Committed,
    CursorExpired,
    EndpointGone,
    RateLimited,
    SchemaRejected,
    StoppedUnknown,
    VersionRetired,
    retry_after_seconds,
)

TOKEN = "ntn_very_secret_token"
EDGE_PAGE = b"<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head>" + b"<p>x</p>" * 700


def notion(status: int, code: str, message: str = "No.", extra: object = None, **headers: str) -> bytes:
    body: dict[str, Any] = {"object": "error", "status": status, "code": code, "message": message}
    if extra is not None:
        body["additional_data"] = extra
    return http_answer(status, body, **headers)


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def page(status: int) -> bytes:
    return http_answer(status, EDGE_PAGE, content_type="text/html")


NO_COLUMN = "Could not find property with name or id: RunId"
NO_SORT = "Could not find sort property with name or id: l%3Dot"
NO_PROPERTY = "RunId is not a property that exists."
NO_OPTION = 'Status option "Doing" does not exist.'
OTHER_TYPE = "database property status does not match filter select"
OLD_VERSION = 'Notion-Version header failed validation: should be `"2027-01-01"`, instead was `"2026-03-11"`.'
OLD_CURSOR = "body failed validation: body.start_cursor should be a valid cursor."
ARCHIVED = "Can't edit block that is archived. You must unarchive the block before editing."
BLOCKED = {"rate_limit_reason": "public_api_request_blocked"}
SPACE = {"rate_limit_reason": "public_api_space_request_rate_limit"}
SLOW = {"retry_after": "60"}

# What was answered, what it is to a read, what it is to a write.
CASES: dict[str, tuple[Any, type[SourceError], type[SourceError]]] = {
    "429": (notion(429, "rate_limited", **SLOW), RateLimited, RateLimited),
    "429 of the workspace": (notion(429, "rate_limited", extra=SPACE, **SLOW), RateLimited, RateLimited),
    "429 blocked": (notion(429, "rate_limited", extra=BLOCKED), Blocked, Blocked),
    "429 page": (http_answer(429, EDGE_PAGE, **SLOW), RateLimited, RateLimited),
    "529": (notion(529, "service_overload", **SLOW), RateLimited, RateLimited),
    "529 page": (http_answer(529, EDGE_PAGE, **SLOW), RateLimited, StoppedUnknown),
    "rate limit under another status": (notion(400, "rate_limited", **SLOW), RateLimited, RateLimited),
    "409": (notion(409, "conflict_error"), Conflict, Conflict),
    "conflict under 400": (notion(400, "conflict_error"), Conflict, Conflict),
    "conflict under 503": (notion(503, "conflict_error"), Conflict, Conflict),
    "401": (notion(401, "unauthorized", "API token is invalid."), Unauthorized, Unauthorized),
    "403": (notion(403, "restricted_resource"), Unauthorized, Unauthorized),
    "403 page": (page(403), Retryable, Retryable),
    "404": (notion(404, "object_not_found"), Gone, Gone),
    "404 page": (page(404), Retryable, Retryable),
    "407 page": (page(407), Retryable, Retryable),
    "400": (notion(400, "validation_error", "body failed validation."), Fatal, Fatal),
    "400 wrong route": (notion(400, "invalid_request_url"), EndpointGone, EndpointGone),
    "400 no version": (notion(400, "missing_version"), EndpointGone, EndpointGone),
    "400 old version": (notion(400, "validation_error", OLD_VERSION), VersionRetired, VersionRetired),
    "400 old cursor": (notion(400, "validation_error", OLD_CURSOR), CursorExpired, CursorExpired),
    "200 of another kind": (http_answer(200, {"object": "user", "id": "u"}), Retryable, UnknownOutcome),
    "200 of no kind": (http_answer(200, {"status": "ok"}), Retryable, UnknownOutcome),
    "400 column by id": (notion(400, "validation_error", NO_COLUMN), SchemaRejected, SchemaRejected),
    "400 column by name": (notion(400, "validation_error", NO_PROPERTY), SchemaRejected, SchemaRejected),
    "400 sort column": (notion(400, "validation_error", NO_SORT), SchemaRejected, SchemaRejected),
    "400 option": (notion(400, "validation_error", NO_OPTION), SchemaRejected, SchemaRejected),
    "400 filter type": (notion(400, "validation_error", OTHER_TYPE), SchemaRejected, SchemaRejected),
    "400 in the trash": (notion(400, "validation_error", ARCHIVED), Gone, Gone),
    "418 unheard-of code": (notion(418, "teapot"), Fatal, Fatal),
    "301": (http_answer(301, b"", location="https://elsewhere.example"), Misconfigured, Misconfigured),
    "500": (notion(500, "internal_server_error"), Retryable, UnknownOutcome),
    "502 page": (page(502), Retryable, UnknownOutcome),
    "503": (notion(503, "service_unavailable"), Retryable, UnknownOutcome),
    "503 committed": (notion(503, "service_unavailable", extra={"committed_resource_id": "p1"}), Retryable, Committed),
    "504": (notion(504, "gateway_timeout"), Retryable, UnknownOutcome),
    "524 page": (page(524), Retryable, UnknownOutcome),
    "500 unheard-of code": (notion(500, "made_up"), Retryable, UnknownOutcome),
    "200 cut off": (http_answer(200, b'{"object": "page", "id'), Retryable, UnknownOutcome),
    "200 shorter than it said": (http_answer(200, b"{}", content_length="500"), Retryable, UnknownOutcome),
    "200 page": (page(200), Retryable, UnknownOutcome),
    "200 not an object": (http_answer(200, b'"hello"'), Retryable, UnknownOutcome),
    "200 with an error in it": (http_answer(200, {"object": "error", "code": "x"}), Retryable, UnknownOutcome),
    "200 empty": (http_answer(200), Retryable, UnknownOutcome),
    "200 bad gzip": (http_answer(200, b"no gzip", content_encoding="gzip"), Retryable, UnknownOutcome),
    "200 not UTF-8": (http_answer(200, b'{"a": "\xff\xfe"}'), Retryable, UnknownOutcome),
    "reset": (reset, Retryable, UnknownOutcome),
    "closed without an answer": (b"", Retryable, UnknownOutcome),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", Retryable, UnknownOutcome),
}


def ask(client: NotionClient, writes: bool) -> SourceError:
    with pytest.raises(SourceError) as raised:
        client.write("PATCH", "pages/p1", {"properties": {}}) if writes else client.read("GET", "pages/p1")
    return raised.value


@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
@pytest.mark.parametrize("name", CASES)
def test_answer_becomes(name: str, writes: bool, odd: OddServer, odd_client: NotionClient) -> None:
    answer, read_error, write_error = CASES[name]
    odd.answers = [answer]
    error = ask(odd_client, writes)
    assert type(error) is (write_error if writes else read_error)
    said = "".join(traceback.format_exception(error))
    assert len(str(error)) < 600
    assert "<p>" not in said
    assert "<!DOCTYPE" not in said
    assert TOKEN not in said
    if writes:
        assert len(odd.requests) == 1


def test_read_is_tried_again_and_a_write_is_not(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [notion(500, "internal_server_error"), page(502), http_answer(200, {"object": "user", "id": "u"})]
    assert odd_client.read("GET", "users/me")["id"] == "u"
    odd.answers, odd.requests = [notion(500, "internal_server_error"), http_answer(200, {"object": "page"})], []
    with pytest.raises(UnknownOutcome):
        odd_client.write("PATCH", "pages/p1", {})
    assert len(odd.requests) == 1


@pytest.mark.parametrize("answer", [notion(409, "conflict_error"), notion(429, "rate_limited")])
def test_refused_write_is_sent_once(answer: bytes, odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [answer]
    with pytest.raises(Retryable):
        odd_client.write("PATCH", "pages/p1", {})
    assert len(odd.requests) == 1


def test_refused_connection_is_surely_not_applied(limiter: NotedLimiter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = NotionClient(NotionConnection(base_url=f"http://127.0.0.1:{port}"), limiter)
    error = ask(client, True)
    client.close()
    assert type(error) is Retryable
    assert "nothing was sent" in str(error)


def test_name_that_does_not_resolve_is_surely_not_applied(limiter: NotedLimiter) -> None:
    connection = NotionConnection(token=SecretStr(TOKEN), base_url="https://notion.invalid", timeout_seconds=3)
    client = NotionClient(connection, limiter)
    error = ask(client, True)
    client.close()
    assert type(error) is Retryable
    assert "notion.invalid" in str(error)


def test_network_edge_block_is_not_called_a_permission_problem(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [page(403)]
    said = str(ask(odd_client, True))
    assert "Cloudflare" in said
    assert "nothing to do with" in said
    assert "capability" not in said


def test_lost_token_is_told_with_its_cure(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [notion(401, "unauthorized", f"API token is invalid. {TOKEN}")]
    error = ask(odd_client, False)
    assert "[token]" in str(error)
    assert TOKEN not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("name", ["429", "429 page", "529", "529 page", "429 blocked"])
@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
def test_limit_pauses_everybody(
    name: str, writes: bool, odd: OddServer, odd_client: NotionClient, limiter: NotedLimiter
) -> None:
    odd.answers = [CASES[name][0]]
    ask(odd_client, writes)
    assert limiter.pauses == [NO_HINT_SECONDS if name == "429 blocked" else 60]
    assert len(odd.requests) == 1


def test_read_comes_back_itself_when_the_pause_is_short(
    odd: OddServer, odd_client: NotionClient, limiter: NotedLimiter
) -> None:
    odd.answers = [notion(429, "rate_limited", retry_after="1"), http_answer(200, {"object": "user", "id": "u"})]
    assert odd_client.read("GET", "users/me")["id"] == "u"
    assert limiter.pauses == [1]
    assert len(limiter.urgent) == 2


NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
HALF_PAST = "Mon, 05 Jan 2026 09:30:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "1"}, 1),
        ({"retry-after": "460"}, 460),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "0"}, 1),
        ({}, NO_HINT_SECONDS),
        ({"retry-after": ""}, NO_HINT_SECONDS),
        ({"retry-after": "-5"}, NO_HINT_SECONDS),
        ({"retry-after": "NaN"}, NO_HINT_SECONDS),
        ({"retry-after": "inf"}, NO_HINT_SECONDS),
        ({"retry-after": "soon"}, NO_HINT_SECONDS),
        ({"retry-after": "1e300"}, LONGEST_SECONDS),
        ({"retry-after": HALF_PAST}, 1800),
        ({"retry-after": HALF_PAST, "date": "Mon, 05 Jan 2026 09:29:00 GMT"}, 60),
        ({"retry-after": HALF_PAST, "date": "Mon, 05 Jan 2026 10:00:00 GMT"}, 1),
        ({"retry-after": "Mon, 05 Jan 2026 08:00:00 GMT"}, 1),
        ({"retry-after": "Mon, 99 Jan 2026 08:00:00 GMT"}, NO_HINT_SECONDS),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


def test_token_stands_in_no_repr(odd_client: NotionClient) -> None:
    shown = f"{odd_client!r} {odd_client.connection!r} {vars(odd_client)!r} {odd_client._notion.options!r}"
    assert TOKEN not in shown


def test_token_is_sent_as_the_bearer(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [http_answer(200, {"object": "user", "id": "u"})]
    odd_client.whoami()
    head = odd.requests[0].decode().lower()
    assert f"authorization: bearer {TOKEN}" in head
    assert "notion-version: 2026-03-11" in head


def test_listing_is_paged_and_a_null_cursor_is_left_out(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [
        http_answer(200, {"object": "list", "results": [1], "has_more": True, "next_cursor": "two"}),
        http_answer(200, {"object": "list", "results": [2], "has_more": False, "next_cursor": None}),
    ]
    seen = [row for answer in odd_client.pages("POST", "search", {"page_size": 100}) for row in answer["results"]]
    assert seen == [1, 2]
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in odd.requests]
    assert bodies == [{"page_size": 100}, {"page_size": 100, "start_cursor": "two"}]


def test_listing_that_does_not_move_on_ends(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [http_answer(200, {"object": "list", "results": [], "has_more": True, "next_cursor": "same"})]
    with pytest.raises(Retryable, match="same cursor"):
        list(odd_client.pages("GET", "comments", {}))
