"""Webhooks of the local board against a receiver: the handshake, the signature, and each fault on the way."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest


@dataclass(frozen=True)
class Received:
    signature: str | None
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.raw)
        return body


class Receiver:
    """Takes what is posted to it, and answers as told."""

    def __init__(self) -> None:
        self.status = 200
        self._taken: queue.SimpleQueue[Received] = queue.SimpleQueue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                outer._taken.put(Received(self.headers.get("x-notion-signature"), raw))
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def next(self) -> Received:
        return self._taken.get(timeout=10)

    def types(self, count: int) -> list[str]:
        return [self.next().body["type"] for _ in range(count)]

    @property
    def empty(self) -> bool:
        return self._taken.empty()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def subscribed(receiver: Receiver, http: httpx.Client) -> str:
    """The token of a verified webhook."""
    made = http.post("/_board/webhooks", json={"url": receiver.url}).json()
    token: str = receiver.next().body["verification_token"]
    assert http.post(f"/_board/webhooks/{made['id']}/verify", json={"verification_token": token}).status_code == 200
    return token


def count(http: httpx.Client, page: str, number: int) -> None:
    assert http.patch(f"/v1/pages/{page}", json={"properties": {"RetryCount": {"number": number}}}).is_success


def test_nothing_is_sent_before_the_token_was_handed_back(tasks: Any, receiver: Receiver, http: httpx.Client) -> None:
    made = http.post("/_board/webhooks", json={"url": receiver.url}).json()
    first = receiver.next()
    assert first.signature is None
    tasks.add("before")
    path = f"/_board/webhooks/{made['id']}/verify"
    assert http.post(path, json={"verification_token": "secret_guess"}).status_code == 400
    assert http.post(path, json={"verification_token": first.body["verification_token"]}).status_code == 200
    page = tasks.add("after")
    event = receiver.next().body
    assert (event["type"], event["entity"]) == ("page.created", {"id": page, "type": "page"})


def test_an_event_is_signed_and_holds_ids_only(
    tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str
) -> None:
    page = tasks.add("a secret title")
    received = receiver.next()
    wanted = "sha256=" + hmac.new(subscribed.encode(), received.raw, hashlib.sha256).hexdigest()
    assert received.signature == wanted
    event = received.body
    assert "secret title" not in received.raw.decode()
    assert event["data"]["parent"]["data_source_id"] == tasks.source_id
    assert event["authors"][0]["type"] == "bot"
    assert event["timestamp"].endswith("Z")
    assert event["attempt_number"] == 1
    count(http, page, 1)
    event = receiver.next().body
    schema = http.get(f"/v1/data_sources/{tasks.source_id}").json()["properties"]
    assert event["type"] == "page.properties_updated"
    assert event["data"]["updated_properties"] == [schema["RetryCount"]["id"]]


def test_each_kind_of_change_is_told(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str) -> None:
    page = tasks.add("x")
    tasks.client.pages.update(page, in_trash=True)
    tasks.client.pages.update(page, in_trash=False)
    tasks.client.data_sources.update(tasks.source_id, properties={"Size": {"number": {}}})
    tasks.client.comments.create(parent={"page_id": page}, rich_text=[{"text": {"content": "hello"}}])
    http.patch(f"/v1/blocks/{page}/children", json={"children": [{"divider": {}}, {"divider": {}}]})
    http.get(f"/v1/pages/{page}")
    assert receiver.types(6) == [
        "page.created",
        "page.deleted",
        "page.undeleted",
        "data_source.schema_updated",
        "comment.created",
        "page.content_updated",
    ]


def test_a_refused_write_is_no_event(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str) -> None:
    page = tasks.add("x")
    receiver.next()
    assert http.patch(f"/v1/pages/{page}", json={"properties": {"Nope": {"number": 1}}}).status_code == 400
    count(http, page, 1)
    assert receiver.types(1) == ["page.properties_updated"]
    assert receiver.empty


def test_what_is_not_taken_is_not_sent_again(
    tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str
) -> None:
    receiver.status = 500
    first, second = tasks.add("1"), tasks.add("2")
    assert [receiver.next().body["entity"]["id"] for _ in range(2)] == [first, second]
    receiver.status = 200
    third = tasks.add("3")
    assert receiver.next().body["entity"]["id"] == third
    [shown] = http.get("/_board/webhooks").json()["webhooks"]
    assert shown["lost"] == 2
    assert subscribed not in str(shown)


def switch(http: httpx.Client, **rates: Any) -> None:
    assert http.post("/_board/faults", json={"plan": rates}).status_code == 201


def test_events_are_dropped(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str) -> None:
    switch(http, webhook_dropped=1.0)
    tasks.add("dropped")
    made = http.post("/_board/webhooks", json={"url": receiver.url})
    assert made.is_success
    # The handshake is no event, and stands behind the dropped one: nothing came in between.
    assert "verification_token" in receiver.next().body


def test_events_are_doubled(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str) -> None:
    switch(http, webhook_doubled=1.0)
    tasks.add("x")
    first, second = receiver.next(), receiver.next()
    assert first.body["id"] == second.body["id"]


def test_events_change_places(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str) -> None:
    switch(http, webhook_reordered=1.0)
    page = tasks.add("x")
    count(http, page, 1)
    assert receiver.types(2) == ["page.properties_updated", "page.created"]


def test_an_event_that_waits_for_the_next_one_does_not_wait_for_ever(
    tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str
) -> None:
    switch(http, webhook_reordered=1.0)
    tasks.add("x")
    assert receiver.types(1) == ["page.created"]


def test_some_events_are_lost_by_rate_and_the_seed_tells_which(
    tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: str
) -> None:
    switch(http, seed=5, webhook_dropped=0.3, webhook_doubled=0.2)
    pages = [tasks.add(str(number)) for number in range(30)]
    switch(http, seed=5)
    last = tasks.add("last")
    seen: list[str] = []
    while not seen or seen[-1] != last:
        seen.append(receiver.next().body["entity"]["id"])
    times = [seen.count(page) for page in pages]
    assert {0, 1, 2} == set(times)


@pytest.mark.parametrize("url", ["http://example.com/x", "ftp://127.0.0.1/x", "file:///etc/passwd", 7, None])
def test_a_board_of_this_machine_tells_nobody_else(url: object, http: httpx.Client) -> None:
    assert http.post("/_board/webhooks", json={"url": url}).status_code == 400


def test_a_webhook_ends(tasks: Any, receiver: Receiver, http: httpx.Client, subscribed: Callable[..., str]) -> None:
    [shown] = http.get("/_board/webhooks").json()["webhooks"]
    assert http.delete(f"/_board/webhooks/{shown['id']}").status_code == 204
    assert http.delete(f"/_board/webhooks/{shown['id']}").status_code == 404
    assert http.get("/_board/webhooks").json() == {"webhooks": []}
