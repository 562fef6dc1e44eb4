"""Cron across clock changes (SCENARIOS.md T1 and T2)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.schedule.cron import Cron, instant_of

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Melbourne", "Australia/Lord_Howe"]
OTHERS = [
    "UTC",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Tehran",
    "Europe/Dublin",
]


def all_due(text: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Local times of every due instant in (start, end]."""
    cron, place, found, at = Cron.parse(text), ZoneInfo(zone), [], start
    while (at := cron.next_after(at, place)) <= end:
        found.append(at.astimezone(place))
    return found


@cache
def changes(zone: str, year: int) -> list[datetime]:
    """The instants at which the offset changes."""
    place, found = ZoneInfo(zone), []
    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        if at.astimezone(place).utcoffset() != (at + timedelta(minutes=30)).astimezone(place).utcoffset():
            found.append(at + timedelta(minutes=30))
        at += timedelta(minutes=30)
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_nine_on_weekdays_is_nine_on_every_weekday_of_a_year_with_both_changes(zone):
    due = all_due("0 9 * * 1-5", zone, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    days = [day for n in range(365) if (day := date(2026, 1, 1) + timedelta(days=n)).weekday() < 5]
    assert len(changes(zone, 2026)) == 2
    assert [at.date() for at in due if at.year == 2026] == [day for day in days if due[0].date() <= day]
    assert len(due) >= 260
    assert {at.time() for at in due} == {time(9, 0)}


@pytest.mark.parametrize(
    ("text", "days"), [("0 9 * * 1-5", "MTWTF"), ("0 9 * * 0", "S"), ("0 9 * * 7", "S"), ("0 9 * * MON-FRI", "MTWTF")]
)
def test_one_is_monday(text, days):
    due = all_due(text, "Europe/Berlin", datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 8, tzinfo=UTC))
    assert "".join(at.strftime("%A")[0] for at in due) == days


@pytest.mark.parametrize(
    ("zone", "text", "start", "local"),
    [
        # In the gap: once, at its end.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:30+0200"]),
        ("America/New_York", "30 2 * * *", "2026-03-07T12:00", ["08 03:00-0400", "09 02:30-0400"]),
        ("Australia/Melbourne", "30 2 * * *", "2026-10-03T00:00", ["04 03:00+1100", "05 02:30+1100"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00", ["04 02:30+1100", "05 02:15+1100"]),
        ("Europe/Berlin", "*/20 2 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:00+0200", "30 02:20+0200"]),
        ("Europe/Berlin", "0 2,3 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:00+0200", "30 03:00+0200"]),
        # A wall time that comes twice: the first.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", ["25 02:30+0200", "26 02:30+0100"]),
        ("America/New_York", "30 1 * * *", "2026-10-31T12:00", ["01 01:30-0400", "02 01:30-0500"]),
        ("Australia/Melbourne", "30 2 * * *", "2026-04-04T00:00", ["05 02:30+1100", "06 02:30+1000"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00", ["05 01:45+1100", "06 01:45+1030"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-10-24T12:00", ["25 02:00+0200", "25 02:30+0200", "26 02:00+0100"]),
        ("Europe/Berlin", "0 */2 * * *", "2026-10-24T21:00", ["25 00:00+0200", "25 02:00+0200", "25 04:00+0100"]),
        # Every hour is every real hour.
        (
            "Europe/Berlin",
            "30 * * * *",
            "2026-10-24T23:00",
            ["25 01:30+0200", "25 02:30+0200", "25 02:30+0100", "25 03:30+0100"],
        ),
        ("Europe/Berlin", "0 * * * *", "2026-03-28T23:30", ["29 01:00+0100", "29 03:00+0200", "29 04:00+0200"]),
        ("Australia/Lord_Howe", "0 * * * *", "2026-10-03T14:30", ["04 02:30+1100", "04 03:00+1100"]),
        # A day that was not there at all (Samoa, 30 December 2011).
        ("Pacific/Apia", "0 9 30 12 *", "2011-12-29T00:00", ["31 00:00+1400", "30 09:00+1400"]),
    ],
)
def test_gaps_and_repeated_hours(zone, text, start, local):
    cron, place, at, found = Cron.parse(text), ZoneInfo(zone), datetime.fromisoformat(start + "+00:00"), []
    for _ in local:
        at = cron.next_after(at, place)
        found.append(at.astimezone(place).strftime("%d %H:%M%z"))
    assert found == local


@given(
    zone=st.sampled_from(ZONES + OTHERS),
    year=st.integers(2020, 2030),
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
)
@settings(max_examples=40, deadline=None)
def test_a_daily_time_is_due_exactly_once_a_day_all_year(zone, year, minute, hour):
    start, end = datetime(year, 1, 3, tzinfo=UTC), datetime(year, 12, 29, tzinfo=UTC)
    due = all_due(f"{minute} {hour} * * *", zone, start, end)
    place = ZoneInfo(zone)
    expected, day = [], start.astimezone(place).date()
    while day <= end.astimezone(place).date():
        instant = instant_of(datetime.combine(day, time(hour, minute)), place)
        if start < instant <= end:
            expected.append(instant)
        day += timedelta(days=1)
    # Compared in UTC: Python never calls a repeated hour of a zone equal to an instant.
    assert [at.astimezone(UTC) for at in due] == expected
    assert len({at.astimezone(UTC) for at in due}) == len(due)
    # Only what a clock change skipped is at another time of day.
    odd = [at for at in due if (at.hour, at.minute) != (hour, minute)]
    assert len(odd) <= 4


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/15", "5,35", "59", "0-10/5"]),
    st.sampled_from(["*", "2", "1-3", "*/2", "0", "23", "9-17"]),
    st.sampled_from(["*", "1", "15", "L", "*/5"]),
    st.sampled_from(["*", "3,4", "10-11"]),
    st.sampled_from(["*", "1-5", "0", "6", "MON#1"]),
)


@given(
    zone=st.sampled_from(ZONES),
    fields=FIELDS,
    year=st.integers(2024, 2028),
    which=st.integers(0, 1),
    minutes=st.integers(-3 * 24 * 60, 3 * 24 * 60),
    seconds=st.integers(0, 59),
)
@settings(max_examples=150, deadline=None)
def test_around_a_clock_change_due_instants_agree_with_a_search_minute_by_minute(
    zone, fields, year, which, minutes, seconds
):
    cron, place = Cron.parse(" ".join(fields)), ZoneInfo(zone)
    change = changes(zone, year)[which]
    after = change + timedelta(minutes=minutes, seconds=seconds)
    due = cron.next_after(after, place)
    assert due > after
    assert cron.next_after(due - timedelta(seconds=1), place) == due, "the rule does not depend on where one starts"
    # Nothing that should have been due lies between: look at every minute of the next two days.
    minute = after.replace(second=0) + timedelta(minutes=1)
    passed = None
    for _ in range(2 * 24 * 60):
        if minute >= due:
            break
        if _should_be_due(cron, place, minute):
            passed = minute
            break
        minute += timedelta(minutes=1)
    assert passed is None
    if due - after < timedelta(days=2):
        assert _should_be_due(cron, place, due)


def _should_be_due(cron: Cron, place: ZoneInfo, at: datetime) -> bool:
    """Straight from the rule, without looking at how it is computed."""
    local = at.astimezone(place)
    if _matches(cron, local.replace(tzinfo=None, fold=0)) and (local.fold == 0 or cron.every_hour):
        return True
    before = (at - timedelta(minutes=1)).astimezone(place)
    skipped = (local.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    wall = local.replace(tzinfo=None, fold=0) - skipped
    while wall < local.replace(tzinfo=None, fold=0):
        if _matches(cron, wall):
            return True
        wall += timedelta(minutes=1)
    return False


@cache
def _calendar(text: str) -> CronSim:
    return CronSim(text, datetime(2026, 1, 1))  # noqa: DTZ001


def _matches(cron: Cron, wall: datetime) -> bool:
    calendar = _calendar(cron.text)
    hit = wall.month in calendar.months and wall.hour in calendar.hours and wall.minute in calendar.minutes
    return hit and wall.second == 0 and calendar.match_day(wall.date())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected 5 fields"),
        ("* * * *", "expected 5 fields (minute hour day month weekday), got 4"),
        ("0 * * * * *", "expected 5 fields (minute hour day month weekday), got 6"),
        ("@daily", "expected 5 fields"),
        ("60 * * * *", "not a cron expression: bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("5-1 * * * *", "bad minute"),
        ("*/0 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("a * * * *", "bad minute"),
        ("1.5 * * * *", "bad minute"),
        ("٣ * * * *", "bad minute"),
    ],
)
def test_bad_expressions_are_refused_with_the_field(text, said):
    with pytest.raises(ValueError, match=r"expected|not a cron|never") as caught:
        Cron.parse(text)
    assert said in str(caught.value)
