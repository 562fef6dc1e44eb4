"""The recipes of docs/recipes do what docs/durable.md says, against a status API that answers 503, loses webhooks and
sends them late: on a clock that skips time, and as real processes that are killed between steps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hermes.model.event import NewEvent
from hermes.model.run import RunState
from hermes.model.step import Step, StepKind
from hermes.testing.durable import Durable, DurableRun, durable_in
from hermes.testing.status_api import Call, Fate, Plan, Served, StatusApi, asked_at

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TINY = timedelta(milliseconds=1)


def recipe(name: str) -> ModuleType:
    if str(RECIPES) not in sys.path:
        sys.path.insert(0, str(RECIPES))
    return importlib.import_module(name)


@pytest.fixture
def durable(folder: Path) -> Iterator[Durable]:
    with durable_in(folder) as durable:
        yield durable


class Outside:
    """The status API, at which the recipes look, on the clock of the test."""

    def __init__(self, durable: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
        self._durable = durable
        self._monkeypatch = monkeypatch
        self._served: list[Served] = []

    def __call__(self, **plan: Any) -> StatusApi:
        api = StatusApi(Plan(**plan), self._durable.clock)
        served = Served(api)
        self._served.append(served)
        for name in ("BILLING_URL", "TRAVEL_URL"):
            self._monkeypatch.setenv(name, served.url)
        return api

    def close(self) -> None:
        for served in self._served:
            served.close()


@pytest.fixture
def outside(durable: Durable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    outside = Outside(durable, monkeypatch)
    yield outside
    outside.close()


def named_with(plan: Plan, fate: Fate, prefix: str = "invoice") -> str:
    """The first number whose batch meets this fate."""
    return next(str(number) for number in range(1000) if plan.fate(f"{prefix} {number}") == fate)


def waits(run: DurableRun[Any]) -> list[Step]:
    """Between the asks; without the deadline, which is armed before them."""
    found = [step for step in run.steps if step.kind in (StepKind.delay, StepKind.event)]
    return found[1:]


def begun(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.what == "begin" and call.changed]


# -- start, then ask


def test_the_poll_asks_when_it_is_due_ever_more_rarely_until_the_answer_is_final(
    durable: Durable, outside: Outside
) -> None:
    api = outside(seed=3, unavailable=0.3, settles_after=3600)
    run = durable.run(recipe("invoice_poll").settle_invoice, "42")
    assert run.result == "invoice 42 is settled"
    assert len(begun(api.calls)) == 1
    assert len({call.key for call in api.calls if call.what == "begin"}) == 1
    due = [step.due_at for step in waits(run)]
    assert due == [entry.at for entry in run.happened("attempt", name="ask_batch", attempt=1)], "to the microsecond"
    plain = [timedelta(seconds=30) * 2**grown for grown in range(5)] + [10 * MINUTE] * 10
    for step, least in zip(waits(run), plain, strict=False):
        assert step.due_at is not None
        assert step.started_at is not None
        assert least <= step.due_at - step.started_at <= 1.1 * least
    assert [call.status for call in api.calls if call.what == "ask"].count(503) > 0


def test_a_batch_that_is_never_settled_is_asked_for_at_the_deadline_and_then_parked(
    durable: Durable, outside: Outside
) -> None:
    api = outside(seed=5, unavailable=0.2, never=1.0)
    run = durable.start(recipe("invoice_poll").settle_invoice, "42")
    durable.skip(DAY)
    assert run.state is RunState.parked
    assert str(run.reason).startswith("no final answer: asked")
    (begin,) = begun(api.calls)
    asked = asked_at(api.calls, "invoice 42")
    deadline = run.steps[1].due_at
    assert deadline is not None
    assert len([at for at in asked if at >= deadline.timestamp()]) in (1, 2, 3), "one ask, and its retries"
    assert len(waits(run)) <= 5 + 3 * HOUR / (10 * MINUTE)

    durable.skip(DAY)
    assert asked_at(api.calls, "invoice 42") == asked
    run.resume()
    resumed = asked_at(api.calls, "invoice 42")[len(asked) :]
    assert resumed[0] == pytest.approx(durable.clock.now().timestamp())
    durable.skip(DAY)
    assert run.state is RunState.parked
    assert len(begun(api.calls)) == 1
    assert begin.about == "invoice 42"


def test_a_receipt_that_billing_does_not_know_is_not_asked_for_twice(durable: Durable, outside: Outside) -> None:
    api = outside()
    run = durable.run(recipe("parcel_watch").watch_parcel, "b99", durable.clock.now() + 40 * DAY)
    assert run.result == "parcel b99 is unknown"
    assert len(api.calls) == 1


# -- webhook first


def news(durable: Durable, receipt: str) -> None:
    durable.database.commit(
        lambda unit: unit.events.fire(NewEvent("BATCH_SETTLED", receipt, '{"state":"settled"}'), max_kept=100)
    )


@pytest.mark.parametrize("webhook", ["sent", "late", "lost"])
def test_the_webhook_is_a_hint_and_the_poll_the_safety_net(durable: Durable, outside: Outside, webhook: Any) -> None:
    plan = {"lost": 0.3, "late": 0.3, "settles_after": 300.0, "late_by": 400.0}
    api = outside(**plan)
    run = durable.start(recipe("invoice_webhook").settle_by_webhook, named_with(api.plan, Fate(True, webhook)))
    began = durable.clock.now()
    (begin,) = begun(api.calls)
    for at in (300, 700):
        durable.skip(began + timedelta(seconds=at) - durable.clock.now())
        if api.plan.fate(begin.about).webhook == {300: "sent", 700: "late"}[at]:
            news(durable, begin.receipt)
            durable.skip(timedelta(0))
    run.finish()
    assert "settled" in run.result
    (asked,) = asked_at(api.calls, begin.about)
    after = timedelta(seconds=asked - began.timestamp())
    if webhook == "sent":
        assert after == 5 * MINUTE
    else:
        assert 10 * MINUTE <= after <= 11 * MINUTE + TINY, "the poll did not wait for it"


def test_a_webhook_that_comes_too_early_costs_one_ask(durable: Durable, outside: Outside) -> None:
    api = outside(settles_after=900.0)
    run = durable.start(recipe("invoice_webhook").settle_by_webhook, "42")
    (begin,) = begun(api.calls)
    news(durable, begin.receipt)
    durable.skip(SECOND)
    assert len(asked_at(api.calls, begin.about)) == 1
    assert run.finish().result == "invoice 42 is settled"
    assert len(asked_at(api.calls, begin.about)) == 3


# -- saga


def test_what_was_booked_is_taken_back_newest_first(durable: Durable, outside: Outside) -> None:
    api = outside(sold_out="cars")
    run = durable.start(recipe("trip_saga").book_trip, "7").finish()
    assert run.state is RunState.refused
    assert run.reason == "Nothing is booked for trip 7: cars are sold out."
    released = [call.about for call in api.calls if call.what == "release"]
    assert released == ["cars/7", "hotels/7", "flights/7"]
    assert api.reserved() == set()


@pytest.mark.parametrize("seed", range(6))
def test_a_trip_is_booked_whole_or_not_at_all(durable: Durable, outside: Outside, seed: int) -> None:
    """Also when a system is down for longer than the retries, and the process dies at its worst moments."""
    api = outside(seed=seed, unavailable=0.6)
    saga = recipe("trip_saga")
    durable.crash_after(saga.reserve)
    run = durable.start(saga.book_trip, "7")
    durable.crash_after(saga.release)
    run.finish()
    whole = {"flights/7", "hotels/7", "cars/7"}
    assert (run.state, api.reserved()) in [(RunState.succeeded, whole), (RunState.refused, set())]
    for about in whole:
        keys = {call.key for call in api.calls if call.what == "reserve" and call.about == about}
        assert len(keys) <= 1


# -- a person decides


def test_an_approval_in_time_pays(durable: Durable, outside: Outside) -> None:
    api, approval = outside(), recipe("spending_approval")
    run = durable.start(approval.spend, "42", 900)
    durable.skip(2 * DAY)
    assert begun(api.calls) == []
    durable.fire(approval.SPENDING_DECIDED, "42", approval.Decision(approved=True, by="Ada"))
    assert run.result == "Ada approved 42: batch b1"
    assert [call.about for call in begun(api.calls)] == ["spending 42"]


def test_a_refusal_and_a_deadline_pay_nothing(durable: Durable, outside: Outside) -> None:
    api, approval = outside(), recipe("spending_approval")
    refused, late = durable.start(approval.spend, "42", 900), durable.start(approval.spend, "43", 900)
    durable.fire(approval.SPENDING_DECIDED, "42", approval.Decision(approved=False, by="Ada", note="Not this year."))
    assert (refused.state, refused.reason) == (RunState.refused, "Ada refused 42. Not this year.")
    durable.skip(3 * DAY)
    assert (late.state, late.reason) == (RunState.refused, "Nobody decided about 43 within 3 days, 0:00:00.")
    durable.fire(approval.SPENDING_DECIDED, "43", approval.Decision(approved=True, by="Ada"))
    assert late.state is RunState.refused
    assert begun(api.calls) == []


# -- for weeks


def test_a_poll_of_weeks_begins_empty_histories_and_ends_at_its_day(durable: Durable, outside: Outside) -> None:
    api = outside(never=1.0)
    receipt = api.begin("k", "parcel 1").receipt
    run = durable.start(recipe("parcel_watch").watch_parcel, receipt, durable.clock.now() + 6 * DAY, HOUR, 50)
    run_ = run.row
    durable.skip(8 * DAY)
    assert run.state is RunState.refused
    assert run.row.id == run_.id
    assert run.row.continued == 2
    assert len(run.steps) <= 101
    asked = asked_at(api.calls, "parcel 1")
    assert len(asked) == 150
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert min(gaps) >= 3600
    assert max(gaps) <= 3600 * 1.1 + 0.001
