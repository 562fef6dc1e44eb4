"""`POST /api/v1/fire/{name}/{instance_id}` as a program meets it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

import hermes.firing
from hermes.errors import StoreUnavailable
from hermes.model.run import RunState

pytestmark = pytest.mark.sqlite_is_enough


def told(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Its error, which has the one shape that errors have."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    error: dict[str, Any] = answer.json()["error"]
    assert error["message"]
    return error


def test_an_event_goes_to_the_run_that_waits_and_says_so(served: Any, key: str) -> None:
    run_id = served.start(key).json()["id"]
    served.work()
    fired = served.ask("POST", "/fire/PAID/42", key, {"amount": 7})
    assert fired.status_code == 202
    answer = fired.json()
    assert isinstance(answer.pop("event"), int)
    assert answer == {"status": "delivered", "run": {"id": run_id, "key": "order-42"}, "duplicate": False}
    served.work()
    assert served.run(run_id).result == 7


def test_an_event_that_nobody_waits_for_is_kept_and_taken_by_the_wait_that_comes(served: Any, key: str) -> None:
    fired = served.ask("POST", "/fire/PAID/42", key, {"amount": 8}).json()
    assert fired["status"] == "kept"
    assert "run" not in fired
    left = datetime.fromisoformat(fired["kept_until"]) - served.now()
    assert timedelta(days=30) - timedelta(minutes=1) < left <= timedelta(days=30)
    run_id = served.start(key).json()["id"]
    served.work()
    assert served.run(run_id).result == 8


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("sent", "instance_id"),
    [
        ("a%2Fb", "a/b"),
        ("a/b", "a/b"),
        ("a%2fb%2F", "a/b/"),
        ("a%2520b", "a%20b"),
        ("%20a%20", " a "),
        ("a+b", "a+b"),
        ("%D9%A4%D9%A2", "٤٢"),
        ("%F0%9F%92%B8", "💸"),
        ("e%CC%81", "e\u0301"),
        ("a%3Fb%23c", "a?b#c"),
        ("cancel", "cancel"),
    ],
)
def test_an_instance_is_what_it_is_once_percent_decoded(served: Any, key: str, sent: str, instance_id: str) -> None:
    assert served.ask("POST", f"/fire/MOVED/{sent}", key).status_code == 202
    assert [event.instance_id for event in served.events(name="MOVED")] == [instance_id]


@pytest.mark.sqlite_is_enough
def test_a_slash_in_a_name_is_part_of_it_when_it_is_encoded(served: Any, key: str) -> None:
    assert served.ask("POST", "/fire/A%2FB/42", key).status_code == 202
    assert [(event.name, event.instance_id) for event in served.events()] == [("A/B", "42")]


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/fire/X/%zz", 400, "bad_path"),
        ("/fire/X/%FF", 400, "bad_path"),
        ("/fire/X/%ED%A0%80", 400, "bad_path"),
        ("/fire/X/%", 400, "bad_path"),
        ("/fire/X/a%00b", 422, "not_an_event"),
        ("/fire/X/a%0D%0AHost:%20evil", 422, "not_an_event"),
        ("/fire/X/%E2%80%AE42", 422, "not_an_event"),
        ("/fire/X/%20", 422, "not_an_event"),
        ("/fire/X/", 422, "not_an_event"),
        ("/fire/X/" + "9" * 501, 422, "not_an_event"),
        ("/fire/" + "N" * 201 + "/1", 422, "not_an_event"),
        ("/fire/X", 404, "no_such_path"),
        ("/fire//42", 404, "no_such_path"),
        ("/fir/X/42", 404, "no_such_path"),
    ],
)
def test_what_can_be_no_event_is_refused_and_nothing_kept(
    served: Any, key: str, path: str, status: int, code: str
) -> None:
    assert told(served.ask("POST", path, key), status)["code"] == code
    assert served.events() == []


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("name", "body", "at"),
    [
        ("PAID", {"amount": "many"}, "amount"),
        ("PAID", {}, "amount"),
        ("PAID", None, ""),
        ("PAID", [1], ""),
        ("PAID", {"amount": 1, "note": 7}, "note"),
    ],
)
def test_a_payload_is_checked_against_the_type_it_is_declared_with(
    served: Any, key: str, name: str, body: Any, at: str
) -> None:
    error = told(served.ask("POST", f"/fire/{name}/42", key, body), 422)
    assert error["code"] == "does_not_fit"
    assert [place["at"] for place in error["places"]] == [at]
    assert "many" not in json.dumps(error)
    assert served.events() == []


@pytest.mark.sqlite_is_enough
def test_a_declared_event_carries_what_it_says_and_an_unknown_one_anything(served: Any, key: str) -> None:
    assert told(served.ask("POST", "/fire/PAID/42", key), 422)["code"] == "does_not_fit"
    assert told(served.ask("POST", "/fire/MOVED/42", key, {"a": 1}), 422)["code"] == "does_not_fit"
    assert told(served.ask("POST", "/fire/MOVED/42", key, None), 422)["code"] == "does_not_fit", "null is a payload"
    assert told(served.ask("POST", "/fire/PAID/42", key, {"amount": 1, "note": "break"}), 422)["code"] == "does_not_fit"
    assert served.events() == []
    assert served.ask("POST", "/fire/NEW/42", key, [1, {"b": None}]).status_code == 202
    assert served.ask("POST", "/fire/NEW/42", key).status_code == 202
    assert served.ask("POST", "/fire/NEW/42", key, None).status_code == 202
    assert [event.payload_json for event in reversed(served.events())] == ['[1,{"b":null}]', None, "null"]


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'a': 1}",
        b"NaN",
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": "\\ud800"}',
        b'"\xff"',
        b"\xff\xfe\x00",
        b"[" * 4_000 + b"]" * 4_000,
        b"[" * 300 + b"]" * 300,
        b"9" * 5_000,
        b"1 2",
        b" ",
        b"\xef\xbb\xbf{}",
    ],
)
def test_json_that_could_be_taken_two_ways_is_refused(served: Any, key: str, body: bytes) -> None:
    assert told(served.ask("POST", "/fire/NEW/42", key, body), 400)["code"] == "bad_json"
    assert served.events() == []


@pytest.mark.sqlite_is_enough
def test_a_body_says_that_it_is_json(served: Any, key: str) -> None:
    def fired(media_type: str | None, **more: str) -> int:
        headers = {"Content-Type": media_type} if media_type else {}
        sent = served.http.build_request(
            "POST", "/fire/NEW/42", content=b"{}", headers={"Authorization": f"Bearer {key}", **headers, **more}
        )
        status: int = served.http.send(sent).status_code
        return status

    refused = [fired(kind) for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", None)]
    assert refused == [415, 415, 415, 415]
    assert fired("application/json", **{"Content-Encoding": "gzip"}) == 415
    assert [fired("application/json; charset=utf-8"), fired("Application/JSON")] == [202, 202]


@pytest.mark.sqlite_is_enough
def test_a_body_above_the_limit_is_refused_before_it_is_read(served: Any, key: str) -> None:
    just = json.dumps("x" * 9_998)
    assert served.ask("POST", "/fire/NEW/42", key, just).status_code == 202
    assert told(served.ask("POST", "/fire/NEW/42", key, json.dumps("x" * 9_999)), 413)["code"] == "too_large"
    chunks = (b'"' + b"x" * 1_000 for _ in range(1_000))
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    assert told(served.http.post("/fire/NEW/42", content=chunks, headers=sent), 413)["code"] == "too_large"
    assert len(served.events()) == 1


def test_one_idempotency_key_is_one_event(served: Any, key: str) -> None:
    once = {"headers": {"Idempotency-Key": "delivery 1"}}
    first = served.ask("POST", "/fire/PAID/42", key, {"amount": 7, "note": "a"}, **once)
    again = served.ask("POST", "/fire/PAID/42", key, b'{ "note":"a",\n "amount": 7 }', **once)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == {**first.json(), "duplicate": True}
    other = told(served.ask("POST", "/fire/PAID/42", key, {"amount": 8}, **once), 422)
    assert other["code"] == "event_id_reused"
    assert served.ask("POST", "/fire/PAID/43", key, {"amount": 8}, **once).json()["duplicate"] is False
    assert len(served.events()) == 2


def test_a_repeat_after_the_delivery_tells_where_the_event_went(served: Any, key: str) -> None:
    run_id = served.start(key).json()["id"]
    served.work()
    once = {"headers": {"Idempotency-Key": "delivery 1"}}
    first = served.ask("POST", "/fire/PAID/42", key, {"amount": 7}, **once).json()
    served.work()
    second = served.start(key, "another").json()["id"]
    served.work()
    assert served.ask("POST", "/fire/PAID/42", key, {"amount": 7}, **once).json() == {**first, "duplicate": True}
    assert served.run(run_id).state is RunState.succeeded
    assert served.run(second).state is RunState.waiting, "one event wakes one wait"


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize("event_id", ["", "x" * 201, "a\tb"])
def test_an_event_id_that_is_none_is_refused(served: Any, key: str, event_id: str) -> None:
    assert told(served.ask("POST", "/fire/MOVED/1", key, headers={"Idempotency-Key": event_id}), 422)
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), ("Authorization", f"Bearer {key}")]
    assert told(served.http.post("/fire/MOVED/1", headers=twice), 400)["code"] == "bad_header"
    assert served.events() == []


def test_how_long_an_event_is_kept(served: Any, key: str) -> None:
    def kept(name: str, ttl: str | None = None) -> timedelta:
        headers = {"Hermes-Event-TTL": ttl} if ttl else {}
        answer = served.ask("POST", f"/fire/{name}/42", key, headers=headers)
        assert answer.status_code == 202, answer.text
        left: timedelta = datetime.fromisoformat(answer.json()["kept_until"]) - served.events(name=name)[0].fired_at
        return left

    assert kept("MOVED") == timedelta(days=30)
    assert kept("SHORT") == timedelta(minutes=5)
    assert kept("SHORT", "12h") == timedelta(hours=12)
    assert kept("OTHER", "90s") == timedelta(seconds=90)
    for ttl in ("0s", "367d", "12", "soon", "-1d", "999999w999999d"):
        answer = served.ask("POST", "/fire/OTHER/42", key, headers={"Hermes-Event-TTL": ttl})
        assert told(answer, 422)["code"] == "not_an_event", ttl


@pytest.mark.sqlite_is_enough
def test_more_than_may_be_kept_is_refused_until_somebody_takes_them(
    served: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes.firing, "MAX_KEPT", 2)
    assert [served.ask("POST", "/fire/MOVED/1", key).status_code for _ in range(3)] == [202, 202, 429]
    answer = served.ask("POST", "/fire/MOVED/1", key)
    assert told(answer, 429)["code"] == "too_many_kept"
    assert answer.headers["Retry-After"] == "60"
    assert served.ask("POST", "/fire/MOVED/2", key).status_code == 202


@pytest.mark.sqlite_is_enough
def test_an_outage_of_the_database_says_come_again_and_tells_nothing_of_it(
    served: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_change: Any) -> Any:
        raise StoreUnavailable("postgresql://hermes:hunter2@db.internal is not there")

    with monkeypatch.context() as patched:
        patched.setattr(served.app.store, "commit", away)
        answer = served.ask("POST", "/fire/MOVED/1", key)
    assert told(answer, 503)["code"] == "unavailable"
    assert answer.headers["Retry-After"] == "1"
    assert "db.internal" not in answer.text
    assert served.events() == []


def fire_in_parallel(served: Any, key: str, count: int, headers: dict[str, str]) -> list[httpx.Response]:
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)  # an idle one may be closed just then
    with (
        httpx.Client(base_url=f"{served.root}/api/v1", timeout=120, limits=limits, trust_env=False) as client,
        ThreadPoolExecutor(64) as pool,
    ):
        return list(
            pool.map(lambda _: client.post("/fire/PAID/42", content=b'{"amount":7}', headers=sent), range(count))
        )


def test_a_thousand_parallel_fires_with_one_id_are_one_event_and_one_wake_up(served: Any, key: str) -> None:
    first, second = (served.start(key, name).json()["id"] for name in ("first", "second"))
    served.work()
    answers = fire_in_parallel(served, key, 1_000, {"Idempotency-Key": "one"})
    assert {answer.status_code for answer in answers} == {202}
    assert sum(not answer.json()["duplicate"] for answer in answers) == 1
    assert {answer.json()["run"]["id"] for answer in answers} == {first}
    assert len(served.events()) == 1
    served.work()
    assert (served.run(first).state, served.run(second).state) == (RunState.succeeded, RunState.waiting)


def test_a_thousand_parallel_fires_without_an_id_are_a_thousand_events(served: Any, key: str) -> None:
    answers = fire_in_parallel(served, key, 1_000, {})
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["event"] for answer in answers}) == 1_000
    assert len(served.events()) == 1_000
