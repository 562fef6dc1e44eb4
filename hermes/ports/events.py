"""What firing, waiting and the pages need from the store of events.

Every method is part of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from hermes.model.event import Event, Fired, NewEvent, OpenWait

T = TypeVar("T")


class Events(Protocol):
    def fire(self, new: NewEvent, *, max_kept: int) -> Fired:
        """The oldest wait of its name and instance gets it and its run is due now; without one it is kept. The same
        event id again changes nothing and says where the event went. Raises ValueError for a name, an instance or an
        id that cannot be one, EventIdReused, and TooManyKept when `max_kept` of the pair are kept already."""
        ...

    def find(
        self,
        *,
        namespace: str | None = None,
        name: str | None = None,
        instance_id: str | None = None,
        kept: bool | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[Event]:
        """Newest first. `kept`: only those nobody has taken, or only those somebody has."""
        ...

    def waits(
        self, *, namespace: str | None = None, name: str | None = None, instance_id: str | None = None, limit: int = 50
    ) -> list[OpenWait]:
        """Those that have waited longest first."""
        ...

    def prune(self, limit: int) -> int:
        """Remove up to `limit` events whose time is over: no wait takes those, and their ids are forgotten."""
        ...


class EventsUnit(Protocol):
    @property
    def now(self) -> datetime: ...

    @property
    def events(self) -> Events: ...


class EventsDatabase(Protocol):
    def commit(self, change: Callable[[EventsUnit], T]) -> T: ...

    def read(self) -> AbstractContextManager[EventsUnit]: ...
