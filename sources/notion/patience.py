"""When a read is tried again at once: after waits with full jitter, and out of a budget, so that an outage is not met
with three times the calls."""

from __future__ import annotations

import threading

import tenacity

from hermes.errors import Retryable
from sources.notion.answers import CursorExpired, RateLimited

READ_ATTEMPTS = 3
PATIENCE_SECONDS = 3.0
"""A read that is asked to come back sooner than this does so within its attempt; else the caller decides."""
EXTRA_SHARE = 0.1
"""Of the calls made, so many may be made again."""
EXTRA_SAVED = 10.0
"""As many at once after a quiet time."""


class RetryBudget:
    """One for each client."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._left = EXTRA_SAVED

    def earn(self) -> None:
        """A call was made for the first time."""
        with self._mutex:
            self._left = min(EXTRA_SAVED, self._left + EXTRA_SHARE)

    def spend(self) -> bool:
        """Whether a call may be made again."""
        with self._mutex:
            if self._left < 1:
                return False
            self._left -= 1
            return True


def worth_another_read(exc: BaseException) -> bool:
    if isinstance(exc, CursorExpired) or not isinstance(exc, Retryable):
        return False
    return exc.retry_after is None or exc.retry_after <= PATIENCE_SECONDS


_backoff = tenacity.wait_random_exponential(multiplier=0.2, max=2.0)


def wait(state: tenacity.RetryCallState) -> float:
    # After 429 the limiter does the waiting, for everybody.
    error = state.outcome.exception() if state.outcome else None
    return 0.0 if isinstance(error, RateLimited) else _backoff(state)
