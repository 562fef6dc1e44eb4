"""The status API that recipes are tried against does wrong what its plan says, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from hermes.testing.clock import FakeClock
from hermes.testing.odd_server import OddServer
from hermes.testing.status_api import Fate, Plan, Served, StatusApi, asked_at, read_log


@pytest.fixture
def receiver() -> Iterator[OddServer]:
    server = OddServer()
    server.answers = [b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]
    yield server
    server.close()


def test_a_plan_says_beforehand_what_will_be() -> None:
    plan = Plan(seed=4, never=0.25, lost=0.3, late=0.3, unavailable=0.2)
    fates = [plan.fate(f"batch {number}") for number in range(2000)]
    assert fates == [plan.fate(f"batch {number}") for number in range(2000)]
    assert 0.2 < sum(not fate.settles for fate in fates) / 2000 < 0.3
    webhooks = Counter(fate.webhook for fate in fates)
    assert all(500 < webhooks[webhook] < 900 for webhook in ("sent", "late", "lost"))
    assert 300 < sum(plan.is_unavailable("batch 1", call) for call in range(2000)) < 500
    assert Plan(seed=5, never=0.25).fate("batch 1") == Fate(Plan(seed=5, never=0.25).fate("batch 1").settles, "sent")


def test_one_batch_a_key_and_its_state_by_the_clock(tmp_path: Path) -> None:
    clock = FakeClock()
    api = StatusApi(Plan(settles_after=60), clock, tmp_path / "log")
    served = Served(api)
    with httpx.Client(base_url=served.url) as client:
        answers = [client.post("/batches", json={"about": "a"}, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 200]
        assert answers[0].json() == answers[1].json() == {"receipt": "b1", "about": "a", "state": "working"}
        assert client.get("/batches/b1").json()["state"] == "working"
        clock.advance(timedelta(seconds=60))
        assert client.get("/batches/b1").json()["state"] == "settled"
        assert client.get("/batches/b2").status_code == 404
    served.close()
    log = read_log(tmp_path / "log")
    assert log == api.calls
    assert [call.changed for call in log] == [True, False, False, False, False]
    assert asked_at(log, "a") == [(clock.now() - timedelta(seconds=60)).timestamp(), clock.now().timestamp()]


def test_a_webhook_is_sent_once_when_it_is_due_or_late_or_never(receiver: OddServer) -> None:
    clock = FakeClock()
    plan = Plan(settles_after=60, lost=0.4, late=0.3, late_by=30)
    api = StatusApi(plan, clock, webhook=f"{receiver.url}/fire/{{receipt}}", token="t")
    for number in range(30):
        api.begin(f"k{number}", f"batch {number}")
    fates = Counter(plan.fate(f"batch {number}").webhook for number in range(30))
    assert api.send_webhooks() == 0
    clock.advance(timedelta(seconds=60))
    assert api.send_webhooks() == fates["sent"] > 0
    clock.advance(timedelta(seconds=30))
    assert api.send_webhooks() == fates["late"] > 0
    clock.advance(timedelta(days=1))
    assert api.send_webhooks() == 0
    assert fates["lost"] > 0
    sent = [call for call in api.calls if call.what == "webhook"]
    assert {call.status for call in sent} == {202}
    assert len(receiver.requests) == len(sent)
    assert all(b"Bearer t" in request for request in receiver.requests)


def test_what_was_released_is_not_reserved_by_a_request_that_comes_late() -> None:
    api = StatusApi(Plan(sold_out="cars"), FakeClock())
    assert api.reserve("k1", "flights", "7").status == 201
    assert api.reserve("k2", "cars", "7").status == 409
    assert api.release("k3", "hotels", "7").status == 404
    assert api.reserve("k4", "hotels", "7").status == 409
    assert api.reserved() == {"flights/7"}
    assert api.release("k5", "flights", "7").changed
    assert not api.release("k6", "flights", "7").changed
    assert api.reserved() == set()
