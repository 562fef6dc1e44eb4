"""Events: named news about one instance, fired by anyone and awaited by runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

DEFAULT_TTL = timedelta(days=30)
"""How long an event is kept for a wait that has not come yet."""

DEFAULT_NAMESPACE = "default"

MAX_NAMESPACE = 100
MAX_NAME = 200
MAX_INSTANCE = 500
MAX_EVENT_ID = 200


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Name and instance meet a wait's character by character; the payload is never looked at for that."""

    name: str
    instance_id: str
    payload_json: str | None = None
    event_id: str | None = None
    """The same one for the same name and instance is the same event, however often it is fired."""
    namespace: str = DEFAULT_NAMESPACE
    ttl: timedelta = DEFAULT_TTL
    fired_by: str = "code"


@dataclass(frozen=True, slots=True)
class Fired:
    """Where an event went."""

    id: int
    duplicate: bool
    """This event id had been fired before: nothing happened now."""
    run_id: str | None
    """The run whose wait took it; None while it is kept."""
    seq: int | None
    kept_until: datetime | None


@dataclass(frozen=True, slots=True)
class Event:
    """An event as anyone may read it."""

    id: int
    namespace: str
    name: str
    instance_id: str
    event_id: str | None
    payload_json: str | None
    fired_at: datetime
    fired_by: str
    expires_at: datetime
    run_id: str | None
    seq: int | None
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait that is being awaited now."""

    run_id: str
    run_key: str
    function: str
    seq: int
    namespace: str
    name: str
    instance_id: str
    since: datetime
    until: datetime | None
    """From then on it takes nothing; None: it waits for ever."""


def checked_pair(namespace: str, name: str, instance_id: str) -> None:
    """Raises ValueError, saying what is wrong with one of them. Nothing is trimmed or folded: they match exactly."""
    for what, text, most in (
        ("a namespace", namespace, MAX_NAMESPACE),
        ("an event's name", name, MAX_NAME),
        ("an instance id", instance_id, MAX_INSTANCE),
    ):
        if not isinstance(text, str):
            raise ValueError(f"{what} is text, not {type(text).__name__}")
        if not text.strip():
            raise ValueError(f"{what} must not be empty")
        if len(text) > most:
            raise ValueError(f"{what} has at most {most} characters, this one {len(text)}: {text[:60]!r}...")
        if not text.isprintable():
            raise ValueError(f"{what} must not contain control characters: {text[:60]!r}")
