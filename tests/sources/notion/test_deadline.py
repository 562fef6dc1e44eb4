"""A call ends within its total time, whatever the other side does in between."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from hermes.errors import Retryable, UnknownOutcome
from hermes.testing.limiter import NotedLimiter
from hermes.testing.odd_server import Answer, OddServer
from sources.notion import NotionClient, NotionConnection, deadline

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
SLOW_ANSWERS: dict[str, Callable[[OddServer], Answer]] = {
    "body": lambda odd: odd.trickle(HEAD + b"content-length: 100000\r\n\r\n{"),
    "body without a length": lambda odd: odd.trickle(HEAD + b"\r\n{"),
    "headers": lambda odd: odd.trickle(HEAD + b"x-slow: "),
    "status line": lambda odd: odd.trickle(b"HTTP/1.1 "),
    "nothing": lambda odd: odd.silent,
}


@pytest.mark.parametrize("part", SLOW_ANSWERS)
def test_trickling_answer_does_not_outlive_the_deadline(part: str, odd: OddServer, hasty_client: NotionClient) -> None:
    odd.answers = [SLOW_ANSWERS[part](odd)]
    started = time.monotonic()
    with pytest.raises(UnknownOutcome, match="in time"):
        hasty_client.write("PATCH", "pages/p1", {})
    assert 0.4 < time.monotonic() - started < 1


def test_attempts_of_a_read_share_one_deadline(odd: OddServer, hasty_client: NotionClient) -> None:
    odd.answers = [odd.silent]
    started = time.monotonic()
    with pytest.raises(Retryable, match="in time"):
        hasty_client.read("GET", "pages/p1")
    assert time.monotonic() - started < 1.2


def test_peer_that_does_not_read_does_not_hold_a_write_up(odd: OddServer, hasty_client: NotionClient) -> None:
    def deaf(_: object) -> None:
        odd.over.wait()

    odd.answers = [deaf]
    odd.reads = False
    started = time.monotonic()
    with pytest.raises(UnknownOutcome):
        hasty_client.write("PATCH", "pages/p1", {"children": "x" * 16_000_000})
    assert time.monotonic() - started < 1.5


def test_name_lookup_counts(monkeypatch: pytest.MonkeyPatch, odd: OddServer) -> None:
    def hang(*_: object, **__: object) -> list[object]:
        odd.over.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    connection = NotionConnection(token=SecretStr("ntn_secret"), base_url="https://notion.example", timeout_seconds=0.3)
    client = NotionClient(connection, NotedLimiter())
    started = time.monotonic()
    with pytest.raises(Retryable, match="nothing was sent"):
        client.write("PATCH", "pages/p1", {})
    client.close()
    assert time.monotonic() - started < 1


def test_address_that_refuses_leaves_the_next_one(monkeypatch: pytest.MonkeyPatch, odd: OddServer) -> None:
    monkeypatch.setattr(deadline, "_addresses", lambda *_: ["127.0.0.2", "127.0.0.1"])
    odd.answers = [HEAD + b'content-length: 29\r\n\r\n{"object": "user", "id": "u"}']
    client = NotionClient(NotionConnection(base_url=f"http://localhost:{odd.port}", timeout_seconds=2), NotedLimiter())
    assert client.whoami()["id"] == "u"
    client.close()
