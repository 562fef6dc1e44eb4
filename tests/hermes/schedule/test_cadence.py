"""Due instants, phases and jitter: stable, spread, never in the past."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from hermes.schedule.cadence import Cadence
from hermes.schedule.cron import Cron

UTC_ZONE = ZoneInfo("UTC")
INSTANTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
EVERY = st.integers(1, 366 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
NAMES = st.text("abcdefgh-_0123", min_size=1, max_size=20)


def every(name: str, interval: timedelta, jitter: timedelta = timedelta(0)) -> Cadence:
    return Cadence(name, interval, None, UTC_ZONE, jitter)


@given(name=NAMES, interval=EVERY, at=INSTANTS)
def test_every_interval_has_exactly_one_due_instant_whatever_is_asked_when(name, interval, at):
    cadence = every(name, interval)
    due = cadence.next_due(at, at)
    assert at < due <= at + interval
    assert cadence.next_due(due, due) == due + interval
    assert cadence.next_due(due - timedelta(microseconds=1), at) == due


@given(name=NAMES, interval=EVERY, due=INSTANTS, late=st.integers(0, 10**7))
def test_however_late_the_next_one_is_in_the_future_and_one_only(name, interval, due, late):
    now = due + timedelta(seconds=late)
    following = every(name, interval).next_due(due, now)
    assert now < following <= now + interval


@given(name=NAMES, interval=EVERY, jitter=EVERY, due=INSTANTS)
def test_jitter_is_stable_and_never_reaches_half_way_to_the_next(name, interval, jitter, due):
    cadence = every(name, interval, jitter)
    start = cadence.start_at(due)
    assert start == every(name, interval, jitter).start_at(due)
    assert due <= start <= due + min(jitter, interval / 2)


def test_five_hundred_polls_of_one_interval_are_spread_over_it():
    interval = timedelta(minutes=10)
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    due = [every(f"poll-{n}", interval).next_due(now, now) for n in range(500)]
    buckets = Counter((at - now) // timedelta(minutes=1) for at in due)
    assert all(buckets[n] > 25 for n in range(10))  # 50 on average
    assert max(buckets.values()) < 80
    assert len(set(due)) > 300


def test_jitter_differs_from_one_due_instant_to_the_next():
    cadence = every("tasks", timedelta(minutes=10), timedelta(minutes=2))
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    starts = set()
    for _ in range(20):
        now = cadence.next_due(now, now)
        starts.add(cadence.start_at(now) - now)
    assert len(starts) > 10


def test_a_first_poll_comes_within_five_seconds_and_not_all_together():
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    first = [every(f"poll-{n}", timedelta(hours=6)).first_due(now) for n in range(50)]
    assert all(now <= at <= now + timedelta(seconds=5) for at in first)
    assert len(set(first)) == 5


def test_a_first_cron_waits_for_its_time():
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    cadence = Cadence("tasks", None, Cron.parse("0 9 * * *"), ZoneInfo("Europe/Berlin"), timedelta(minutes=5))
    assert cadence.first_due(now) == datetime(2026, 1, 6, 8, tzinfo=UTC)
    assert cadence.start_at(cadence.first_due(now)) < datetime(2026, 1, 6, 8, 5, tzinfo=UTC)


def test_the_spread_of_names_stays_what_it_is():
    """A changed hash would move the due instants of every poll of every installation."""
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert every("tasks", timedelta(minutes=10)).next_due(now, now).isoformat() == "2026-01-05T09:00:19+00:00"
