"""Counters: exact under threads, closed names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes.telemetry.metrics import BUCKETS, COUNTERS, Metrics

PUBLISHED = {
    "polls_due",
    "polls_started",
    "polls_succeeded",
    "polls_failed",
    "tasks_claimed",
    "tasks_completed",
    "tasks_failed",
    "claim_expired_count",
    "duplicate_suppressed_count",
    "llm_calls",
    "llm_cost",
    "rate_limit_count",
}


def test_every_name_of_the_design_is_there_from_the_start():
    assert not PUBLISHED - set(Metrics().snapshot().values)


def test_no_count_is_lost_between_threads():
    metrics = Metrics()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: metrics.add("tasks_claimed"), range(5000)))
    assert metrics.snapshot().values["tasks_claimed"] == 5000


def test_a_name_that_is_not_published_is_a_bug():
    with pytest.raises(KeyError):
        Metrics().add("tasks_clamed")
    with pytest.raises(KeyError):
        Metrics().set("polls_dew", 1)


def test_run_durations_are_a_histogram():
    metrics = Metrics()
    for seconds in (0.05, 0.1, 3.0, 100_000.0):
        metrics.run_took(seconds)
    seen = metrics.snapshot().run_duration
    assert (seen.count, seen.average) == (4, pytest.approx(25_000.7875))
    assert seen.buckets[0] == 2
    assert seen.buckets[BUCKETS.index(5.0)] == 1
    assert seen.buckets[-1] == 1
    assert Metrics().snapshot().run_duration.average is None


def test_a_snapshot_does_not_change_afterwards():
    metrics = Metrics()
    before = metrics.snapshot()
    metrics.add(COUNTERS[0])
    assert before.values[COUNTERS[0]] == 0
