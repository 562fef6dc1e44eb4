"""`fire`, `events` and `start`: what the API does, from the command line."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.app import App

EVENTS = """
from datetime import timedelta

from pydantic import BaseModel

from hermes.durable import Event, function, wait_for_event


class Payment(BaseModel):
    amount: int


PAID = Event("CLI_PAID", Payment)
MOVED = Event("CLI_MOVED")


@function(name="cli_events.pay")
async def pay(order: str, days: int = 3) -> int:
    paid = await wait_for_event(PAID, order, timeout=timedelta(days=days))
    return paid.amount


@function(name="cli_events.watch")
async def watch(order: str) -> None:
    await wait_for_event(MOVED, order, forever=True)
"""


@pytest.fixture
def shop(place: Any) -> Any:
    (place.config / "cli_events.py").write_text(EVENTS)
    place.write_hermes(functions=["cli_tasks", "cli_events"])
    place.ok("db", "upgrade")
    return place


def work(place: Any) -> None:
    """What a worker would do now."""
    app = App.load(place.config)
    worker = app.worker()
    try:
        worker.run_due()
    finally:
        worker.close()
        app.close()


def test_an_event_reaches_the_run_that_waits(shop) -> None:
    started = shop.ok("start", "cli_events.pay", "--key", "order/42", "--arg", 'order="42"', "--json").json
    assert (started["created"], started["state"], started["key"]) == (True, "ready", "order/42")
    work(shop)
    fired = shop.ok("fire", "CLI_PAID", "42", "--json-payload", '{"amount": 7}', "--json").json
    assert fired == {
        "event": fired["event"],
        "status": "delivered",
        "run": {"id": started["run"], "key": "order/42"},
        "duplicate": False,
    }
    work(shop)
    again = shop.ok("start", "cli_events.pay", "--key", "order/42", "--arg", 'order="43"')
    assert f"has a run already: {started['run']}, which is succeeded" in again.out


def test_an_event_that_came_first_is_kept(shop) -> None:
    said = shop.ok("fire", "CLI_MOVED", "42", "--ttl", "12h")
    assert "is kept until" in said.out
    kept = shop.ok("events", "list", "--kept", "--json").json["events"]
    assert [(event["name"], event["instance_id"], event["fired_by"]) for event in kept] == [("CLI_MOVED", "42", "cli")]
    shop.ok("start", "cli_events.watch", "--key", "w", "--args", '{"order": "42"}')
    work(shop)
    assert shop.ok("events", "list", "--kept").out == "No events that fit.\n"
    assert "run " in shop.ok("events", "list", "--name", "CLI_MOVED", "--instance", "42").out
    assert shop.ok("events", "list", "--name", "CLI_PAID", "--json").json == {"events": []}


def test_the_same_id_is_the_same_event(shop) -> None:
    first = shop.ok("fire", "CLI_PAID", "42", "--id", "a", "--json-payload", '{"amount":7}', "--json").json
    again = shop.ok("fire", "CLI_PAID", "42", "--id", "a", "--json-payload", '{ "amount": 7 }', "--json").json
    assert again == {**first, "duplicate": True}
    other = shop.call("fire", "CLI_PAID", "42", "--id", "a", "--json-payload", '{"amount":8}')
    assert other.code == 1
    assert "another payload" in other.err


def test_a_payload_from_a_file_and_from_stdin(shop, tmp_path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"amount": 7}')
    shop.ok("fire", "CLI_PAID", "1", "--file", str(file))
    shop.ok("fire", "CLI_PAID", "2", "--file", "-", answer='{"amount": 8}')
    kept = shop.ok("events", "list", "--json").json["events"]
    assert [event["payload_json"] for event in kept] == ['{"amount":8}', '{"amount":7}']


@pytest.mark.parametrize(
    "args",
    [
        ("CLI_PAID", "42"),
        ("CLI_PAID", "42", "--json-payload", '{"amount": "x"}'),
        ("CLI_PAID", "42", "--json-payload", "{"),
        ("CLI_PAID", "42", "--json-payload", "{}", "--file", "-"),
        ("CLI_PAID", "42", "--file", "nowhere.json"),
        ("CLI_MOVED", "42", "--json-payload", "1"),
        ("CLI_MOVED", " "),
        ("CLI_MOVED", "42", "--ttl", "soon"),
        ("CLI_MOVED", "42", "--ttl", "1000d"),
        ("CLI_MOVED", "42", "--namespace", "a:b"),
        ("CLI_MOVED", "42", "--id", ""),
    ],
)
def test_what_can_be_no_event_is_usage_and_nothing_is_kept(shop, args) -> None:
    assert shop.call("fire", *args).code == 2
    assert shop.ok("events", "list", "--json").json == {"events": []}


def test_waits_are_listed_and_those_for_ever_are_marked(shop) -> None:
    assert "No run waits" in shop.ok("events", "waits").out
    shop.ok("start", "cli_events.watch", "--key", "w", "--arg", 'order="42"', "--namespace", "shop")
    shop.ok("start", "cli_events.pay", "--key", "p", "--arg", 'order="43"', "--arg", "days=1")
    work(shop)
    shown = shop.ok("events", "waits").out.splitlines()
    assert "for ever" in shown[1]
    assert "for ever" not in shown[2]
    waits = shop.ok("events", "waits", "--json").json["waits"]
    assert [(wait["name"], wait["namespace"], wait["forever"]) for wait in waits] == [
        ("CLI_MOVED", "shop", True),
        ("CLI_PAID", "default", False),
    ]
    assert len(shop.ok("events", "waits", "--namespace", "shop", "--json").json["waits"]) == 1


def test_a_start_that_cannot_be_is_said(shop) -> None:
    nobody = shop.call("start", "cli_events.pa", "--key", "x")
    assert nobody.code == 3
    assert "cli_events.pay" in nobody.err
    assert shop.call("start", "cli_events.pay", "--key", "x").code == 2, "an argument is missing"
    assert shop.call("start", "cli_events.pay", "--key", " ", "--arg", 'order="1"').code == 2
    for wrong in (("--arg", "order"), ("--arg", "order=x"), ("--args", "[]"), ("--arg", "a=1", "--args", "{}")):
        assert shop.call("start", "cli_events.pay", "--key", "x", *wrong).code == 2
    assert shop.call("start", "cli_events.pay", "--key", "x", "--arg", 'order="1"', "--at", "soon").code == 2
    assert shop.ok("runs", "list", "--json").json["runs"] == []
    shop.ok("start", "cli_events.pay", "--key", "x", "--arg", 'order="1"', "--at", "2031-01-01T09:00:00")
    taken = shop.call("start", "cli_events.watch", "--key", "x", "--arg", 'order="1"')
    assert taken.code == 1
    assert "another function" in taken.err
