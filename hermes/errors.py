"""The errors of Hermes, sorted by what the caller must do.

HermesError
  ConfigError                 fix the file; never retried
  WaitTimedOut                no event came in time (also a TimeoutError)
  EventIdReused               this event id was fired before, with another payload
  TooManyKept                 events of this pair are kept already, as many as may be
  StoreError                  the database cannot be used as it is; says what to do
    StoreUnavailable          locked, full, unreachable for now: the same transaction may be tried again
      StoreDamaged            a broken page: nothing is claimed or begun until a person has restored it
  SourceError
    Retryable(retry_after)    surely not applied, or a read: 429, 529, refused connection; try later
      Conflict                409: read, decide again
    UnknownOutcome            a write that may or may not have happened (timeout, 5xx, lost connection)
    Skippable(record_id)      one bad record: log, skip, go on
    Fatal                     stop this poll and tell a person
      Unauthorized            the credential is refused
      Gone                    the page is deleted, trashed or no longer shared
      Misconfigured           the board lacks a column or option; the message names it

LeaseLost(BaseException)      someone else holds the run: stop, write nothing but receipts
"""

from __future__ import annotations


class HermesError(Exception):
    """Base of what Hermes raises on purpose."""


class ConfigError(HermesError):
    """A file the operator wrote cannot be used. `where` is `file:line:col` or a key."""

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class WaitTimedOut(HermesError, TimeoutError):
    """No event came while a durable function waited for it."""


class EventIdReused(HermesError):
    """An event id stands for one event; this one carried another payload before. Nothing was changed."""


class TooManyKept(HermesError):
    """Nobody takes the events of this pair, and as many as may be are kept already. Nothing was changed."""


class StoreError(HermesError):
    """The database cannot be used as it is."""


class StoreUnavailable(StoreError):
    """The transaction was not made, or nobody knows whether it was: try again what bears trying twice."""


class StoreDamaged(StoreUnavailable):
    """What the database has kept cannot be read. Loops wait as for an outage: only a person can end it."""


class SourceError(HermesError):
    """Something outside answered badly. The text is short, safe to show, and free of secrets."""


class Retryable(SourceError):
    """Surely not applied (or only a read). `retry_after`: seconds the other side asked for, whole."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Conflict(Retryable):
    """The other side refused a concurrent write: read again and decide again."""


class UnknownOutcome(SourceError):
    """A change that may or may not have been made."""


class Skippable(SourceError):
    """One record cannot be read; the others can."""

    def __init__(self, message: str, *, record_id: str) -> None:
        super().__init__(message)
        self.record_id = record_id


class Fatal(SourceError):
    """Only a person can cure this."""


class Unauthorized(Fatal):
    """The credential is refused."""


class Gone(Fatal):
    """The object is deleted, in the trash, or not shared any more."""


class Misconfigured(Fatal):
    """A column or option that is needed is missing; the message names it."""


class LeaseLost(BaseException):
    """The run is held by someone else. A BaseException, so that no user code swallows it."""
