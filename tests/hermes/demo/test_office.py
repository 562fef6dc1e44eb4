"""The demo's office fails as it says it does, and does nothing twice under one key."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from hermes.demo.service import CLOSED_CUSTOMER, LOST_ANSWER, OVERLOADED, OVERLOADED_CALLS, Office, handler_for
from hermes.demo.verdict import Office as Log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "office.jsonl"


@pytest.fixture
def client(log: Path) -> Iterator[httpx.Client]:
    office = Office(log)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(office))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.server_address[1]}", trust_env=False) as client:
            yield client
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        office.close()


def ask(client: httpx.Client, subject: str, key: str, **body: str) -> httpx.Response:
    return client.post("/invoices", json={"subject": subject, **body}, headers={"Idempotency-Key": key})


def test_a_key_that_was_seen_gets_its_answer_again_and_has_no_second_effect(client: httpx.Client, log: Path) -> None:
    first, second = ask(client, "Invoice 1", "k1"), ask(client, "Invoice 1", "k1")
    assert first.json() == second.json()
    assert [entry["effect"] for entry in Log.read(log).entries] == [True, False]


def test_the_same_subject_under_another_key_happens_again_and_the_log_shows_it(client: httpx.Client, log: Path) -> None:
    ask(client, "Invoice 1", "k1")
    ask(client, "Invoice 1", "k2")
    assert len(Log.read(log).effects) == 2


def test_it_is_overloaded_for_the_first_calls_only(client: httpx.Client, log: Path) -> None:
    statuses = [ask(client, OVERLOADED, "k1").status_code for _ in range(OVERLOADED_CALLS + 1)]
    assert statuses == [503] * OVERLOADED_CALLS + [201]
    assert len(Log.read(log).effects) == 1


def test_a_refusal_of_business_stays_one(client: httpx.Client, log: Path) -> None:
    answers = [ask(client, "Invoice 1", key, customer=CLOSED_CUSTOMER) for key in ("k1", "k2")]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert Log.read(log).effects == []


def test_a_lost_answer_had_its_effect_and_the_key_finds_it(client: httpx.Client, log: Path) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(client, LOST_ANSWER, "k1")
    assert ask(client, LOST_ANSWER, "k1").status_code == 201
    assert [entry["effect"] for entry in Log.read(log).entries] == [True, False]


def test_its_log_is_its_memory(client: httpx.Client, log: Path) -> None:
    number = ask(client, "Invoice 1", "k1").json()
    later = Office(log)
    assert later.call("/invoices", "k1", {"subject": "Invoice 1"}) == (201, number, True)
    later.close()


def test_a_call_without_a_key_is_refused(client: httpx.Client) -> None:
    assert client.post("/invoices", json={"subject": "Invoice 1"}).status_code == 400
