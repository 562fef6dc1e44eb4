"""How far Notion's clock is from ours, by the `Date` of its answers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

NOTICED = timedelta(seconds=5)
ANSWERS = 5
"""So many answers must agree: one gateway with a wrong clock is not Notion's."""
WHOLE_SECOND = timedelta(seconds=1)
"""What a `Date` leaves out."""

_log = logging.getLogger("hermes.notion")


class Skew:
    """`Date` was written between sending and receiving. What that leaves open is counted as no difference, so neither
    a slow answer nor the missing fraction of a second looks like a wrong clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._mutex = threading.Lock()
        self._seen: deque[timedelta] = deque(maxlen=ANSWERS)
        self._said = False

    @property
    def value(self) -> timedelta | None:
        """Theirs less ours: positive when our clock is behind. None before the first answer."""
        with self._mutex:
            return min(self._seen, key=abs, default=None)

    def sent(self, request: httpx.Request) -> None:
        request.extensions["hermes.sent_at"] = self._now()

    def received(self, response: httpx.Response) -> None:
        sent_at, received_at = response.request.extensions.get("hermes.sent_at"), self._now()
        written = _date(response.headers.get("date", ""))
        if written is None or sent_at is None:
            return
        least, most = written - received_at, written + WHOLE_SECOND - sent_at
        with self._mutex:
            self._seen.append(least if least > timedelta(0) else most if most < timedelta(0) else timedelta(0))
            skew = min(self._seen, key=abs)
            wrong = abs(skew) > NOTICED
            news, self._said = wrong and not self._said, wrong
        if news:
            side = "behind" if skew > timedelta(0) else "ahead of"
            _log.warning(
                "our clock is %.0f s %s Notion's: switch on time synchronisation (NTP)", abs(skew).total_seconds(), side
            )


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
