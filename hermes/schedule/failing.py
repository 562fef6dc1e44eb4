"""What a failed occurrence means for its poll: when to try again, and whether a person must look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from hermes.errors import ConfigError, Fatal, Retryable

BACKOFF_START = timedelta(seconds=15)
BACKOFF_CAP = timedelta(minutes=30)
"""Outages never stop a poll: it is tried this often for as long as they last."""
FATAL_START = timedelta(minutes=1)
FATAL_WAIT = timedelta(minutes=10)
"""What a person must cure is tried at the poll's own pace, but a rare poll's every ten minutes."""
ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Failure:
    fatal: bool
    """Only a person can cure it: counts towards `stop.max_consecutive_failures`."""
    text: str
    wait: timedelta


def failure_of(error: Exception, failures_before: int, until_next: timedelta) -> Failure:
    """`until_next`: time until the poll's next regular due instant."""
    fatal = isinstance(error, (Fatal, ConfigError))
    wait = _wait(error, failures_before)
    if fatal:
        wait = max(wait, FATAL_START, min(until_next, FATAL_WAIT))
    return Failure(fatal, _text(error), wait)


def _wait(error: Exception, failures_before: int) -> timedelta:
    doublings: int = min(failures_before, 16)
    wait = min(BACKOFF_CAP, BACKOFF_START * (1 << doublings))
    if isinstance(error, Retryable) and error.retry_after is not None:
        wait = max(wait, timedelta(seconds=error.retry_after))
    return wait


def _text(error: Exception) -> str:
    """On one line. Hermes' own errors are short and safe; of others the kind is said too."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in str(error)).split())
    words = words or type(error).__name__
    if type(error).__module__ != "hermes.errors" and not isinstance(error, (Fatal, Retryable, ConfigError)):
        words = f"{type(error).__name__}: {words}"
    return words if len(words) <= ERROR_LENGTH else words[: ERROR_LENGTH - 1] + "…"


def disabled_reason(poll_id: str, failures: int, text: str) -> str:
    return (
        f"Disabled after {failures} failures in a row that only a person can cure. Last: {text} "
        f"Mend the cause, then run `hermes-poll polls resume {poll_id}` (an edit of its file does the same)."
    )
