from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.durable.backoff import COMMAND, DELIVERY, Backoff

policies = st.sampled_from([COMMAND, DELIVERY])


@given(policies, st.integers(1, 10_000), st.text(max_size=20), st.integers())
def test_a_wait_is_within_its_bounds_and_always_the_same(policy: Backoff, tries: int, run: str, seq: int) -> None:
    wait = policy.wait(tries, run, seq)
    plain = min(policy.first.total_seconds() * policy.factor ** min(tries - 1, 60), policy.longest.total_seconds())
    assert plain <= wait.total_seconds() + 1e-6 <= plain * (1 + policy.jitter) + 2e-6
    assert policy.wait(tries, run, seq) == wait


@given(policies, st.integers(1, 30))
def test_it_grows_until_it_is_long_enough(policy: Backoff, tries: int) -> None:
    assert policy.wait(tries + 1, "r") * (1 + policy.jitter) >= policy.wait(tries, "r")


def test_runs_that_fail_together_come_back_apart() -> None:
    waits = {COMMAND.wait(5, f"run {number}") for number in range(100)}
    assert len(waits) == 100
    assert max(waits) - min(waits) > timedelta(seconds=2)


@pytest.mark.parametrize("policy", [COMMAND, DELIVERY])
def test_the_longest_wait_is_a_matter_of_minutes(policy: Backoff) -> None:
    assert policy.wait(1_000_000, "r") < timedelta(minutes=20)
