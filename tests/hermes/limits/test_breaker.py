"""The breaker of an endpoint: closed, open, half open, shut."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.errors import Fatal, Misconfigured, Retryable
from hermes.limits import Breaker
from hermes.limits.breaker import FAILURES, LONGEST_SECONDS, PROBE_SECONDS, TOLD
from hermes.testing.clock import FakeClock

ENDPOINT = "GET pages/{id}"


def fail(breaker: Breaker, times: int, *, endpoint: str = ENDPOINT) -> None:
    for _ in range(times):
        breaker.failed(endpoint, Retryable("Notion answered 503"), permanent=False)


def wait_of(breaker: Breaker) -> float:
    """0 is no wait."""
    try:
        breaker.admit(ENDPOINT)
    except Retryable as error:
        return error.retry_after or 0
    return 0


def test_failures_in_a_row_open_it_and_fewer_do_not() -> None:
    breaker = Breaker(FakeClock())
    fail(breaker, FAILURES - 1)
    breaker.admit(ENDPOINT)
    fail(breaker, 1)
    with pytest.raises(Retryable, match=r"5 times in a row .*503.*nothing was sent") as refused:
        breaker.admit(ENDPOINT)
    assert refused.value.retry_after == 1
    breaker.admit("GET users/me")


def test_when_the_while_is_over_one_call_tries_and_the_others_wait_for_it() -> None:
    clock = FakeClock()
    breaker = Breaker(clock)
    fail(breaker, FAILURES)
    clock.advance(timedelta(seconds=1))
    assert wait_of(breaker) == 0
    assert wait_of(breaker) == PROBE_SECONDS
    clock.advance(timedelta(seconds=PROBE_SECONDS))
    assert wait_of(breaker) == 0, "whoever tried has not come back"


def test_a_try_that_fails_opens_it_for_twice_as_long_up_to_a_limit() -> None:
    clock = FakeClock()
    breaker = Breaker(clock)
    fail(breaker, FAILURES)
    waits = []
    for _ in range(8):
        waits.append(wait_of(breaker))
        clock.advance(timedelta(seconds=waits[-1]))
        breaker.admit(ENDPOINT)
        fail(breaker, 1)
    assert waits == [1, 2, 4, 8, 16, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]


def test_an_answer_closes_it_and_the_count_begins_anew() -> None:
    clock = FakeClock()
    breaker = Breaker(clock)
    fail(breaker, FAILURES)
    clock.advance(timedelta(seconds=1))
    breaker.admit(ENDPOINT)
    breaker.answered(ENDPOINT)
    fail(breaker, FAILURES - 1)
    breaker.admit(ENDPOINT)


def test_what_is_told_to_be_gone_is_shut_until_the_configuration_changes() -> None:
    clock = FakeClock()
    breaker = Breaker(clock)
    gone = Misconfigured("no such endpoint")
    for _ in range(TOLD - 1):
        breaker.failed(ENDPOINT, gone, permanent=True)
        breaker.admit(ENDPOINT)
    breaker.failed(ENDPOINT, gone, permanent=True)
    clock.advance(timedelta(days=30))
    with pytest.raises(Misconfigured, match=r"no such endpoint .*until the configuration changes"):
        breaker.admit(ENDPOINT)
    assert breaker.shut() == {ENDPOINT: "no such endpoint"}
    breaker.reset()
    breaker.admit(ENDPOINT)
    assert breaker.shut() == {}


def test_it_must_be_told_in_a_row() -> None:
    breaker = Breaker(FakeClock())
    for _ in range(5):
        breaker.failed(ENDPOINT, Fatal("no such endpoint"), permanent=True)
        breaker.answered(ENDPOINT)
    breaker.admit(ENDPOINT)
