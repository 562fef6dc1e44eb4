"""Instants as Notion writes and reads them: object times and date values floored to the minute."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


@lru_cache(maxsize=4096)
def minute_stamp(at: datetime) -> str:
    """`created_time` and `last_edited_time` of pages, blocks, comments and data sources."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00.000Z")


def exact_stamp(at: datetime) -> str:
    """Databases and views carry milliseconds and a numeric offset instead."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def whole_stamp(at: datetime) -> str:
    """Milliseconds and `Z`: what async tasks carry."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def floor_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


class Moment(NamedTuple):
    """One end of a date value. A day without a time of day stands for its midnight in UTC."""

    at: datetime
    is_day: bool


@lru_cache(maxsize=65536)
def read_moment(text: str) -> Moment | None:
    """Parse an ISO 8601 day or instant, floored to the minute; None when it is neither. No offset means UTC."""
    try:
        if _DAY.match(text):
            return Moment(datetime.combine(date.fromisoformat(text), time(), UTC), True)
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return Moment(floor_minute(at), False)


def written_moment(text: str, time_zone: str | None) -> str | None:
    """A date value as it will be answered; None when it cannot be read."""
    moment = read_moment(text)
    if moment is None:
        return None
    if moment.is_day:
        return text
    at = moment.at
    if time_zone is not None:
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return None
        has_offset = datetime.fromisoformat(text).tzinfo is not None
        at = at.astimezone(zone) if has_offset else at.replace(tzinfo=zone)
    return at.isoformat(timespec="milliseconds")


def add_months(at: datetime, months: int) -> datetime:
    """The same day of another month, or its last day."""
    month = at.month - 1 + months
    year, month = at.year + month // 12, month % 12 + 1
    following = date(year + month // 12, month % 12 + 1, 1)
    last = (following - timedelta(days=1)).day
    return at.replace(year=year, month=month, day=min(at.day, last))
