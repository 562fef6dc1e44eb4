"""Events: news from outside that a durable function waits for, without holding anything meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, overload

import typing_extensions

from hermes.durable.codec import Codec
from hermes.durable.context import driving, only_in_a_function
from hermes.durable.outside import NoEvent, Nothing
from hermes.errors import WaitTimedOut
from hermes.model.event import DEFAULT_NAMESPACE, DEFAULT_TTL, NewEvent, checked_pair

T = TypeVar("T")
Payload = typing_extensions.TypeVar("Payload", default=None)

DECLARED: dict[str, Event[Any]] = {}
"""By name: what fires from outside is checked against the type it is declared with, where it is."""


@dataclass(frozen=True)
class Event(Generic[Payload]):
    """Declared once, shared by whoever fires it and whoever waits for it:

        PAID = Event("PAID", Payment)

    `type`: of its payload, as pydantic knows it; without one it carries nothing. `ttl`: for how long it is kept when
    nobody waits for it yet.
    """

    name: str
    type: type[Payload] | None = None
    ttl: timedelta = field(default=DEFAULT_TTL, kw_only=True)

    def __post_init__(self) -> None:
        checked_pair(DEFAULT_NAMESPACE, self.name, "any")
        if self.ttl <= timedelta(0):
            raise ValueError(f"event {self.name!r}: ttl must be longer than nothing")
        DECLARED[self.name] = self

    @cached_property
    def codec(self) -> Codec:
        return Codec(self.type if self.type is not None else None, f"the payload of event {self.name!r}")


@overload
def wait_for_event(event: Event[T], instance_id: str, *, timeout: timedelta) -> Awaitable[T]: ...
@overload
def wait_for_event(event: Event[T], instance_id: str, *, forever: Literal[True]) -> Awaitable[T]: ...
@overload
def wait_for_event(event: str, instance_id: str, *, timeout: timedelta, type: type[T]) -> Awaitable[T]: ...
@overload
def wait_for_event(event: str, instance_id: str, *, forever: Literal[True], type: type[T]) -> Awaitable[T]: ...
@overload
def wait_for_event(event: str, instance_id: str, *, timeout: timedelta) -> Awaitable[None]: ...
@overload
def wait_for_event(event: str, instance_id: str, *, forever: Literal[True]) -> Awaitable[None]: ...
def wait_for_event(
    event: Event[Any] | str,
    instance_id: str,
    *,
    timeout: timedelta | None = None,
    forever: bool = False,
    type: type[Any] | None = None,
) -> Awaitable[Any]:
    """A handle that ends with the payload of the next event of this name and instance, which match exactly, character
    by character. One that was fired before is taken at once; while it is awaited, and only then, it takes the next.
    Waits of the same pair are served in the order in which they began.

    `timeout` counts from this call; when it is over `WaitTimedOut` is raised at the await, now and at every replay.
    Without one say `forever=True`: such waits are listed (`runs list --waiting`). Outside a run nobody can fire: a
    timeout is over at once.
    """
    wanted = event if isinstance(event, Event) else _by_name(event, type)
    if isinstance(event, Event) and type is not None:
        raise TypeError(f"event {event.name!r} knows its type: do not give another")
    if (timeout is None) != forever:
        raise TypeError(f"wait_for_event({wanted.name!r}): give a timeout, or forever=True, and not both")
    checked_pair(DEFAULT_NAMESPACE, wanted.name, instance_id)
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("wait_for_event")
        return NoEvent(WaitTimedOut(f"no event {wanted.name} came for {instance_id} in time"), forever)
    return delivery.wait_for_event(wanted.name, instance_id, timeout, wanted.codec)


@overload
def fire(event: Event[T], instance_id: str, payload: T, /) -> Awaitable[None]: ...
@overload
def fire(event: Event[Any] | str, instance_id: str, /) -> Awaitable[None]: ...
def fire(event: Event[Any] | str, instance_id: str, payload: Any = None, /) -> Awaitable[None]:
    """Fire an event from inside a run, once: it and the step that says so are one transaction. It stays in the run's
    namespace. Outside a run it does nothing: programs fire by HTTP (`POST /api/v1/fire/NAME/INSTANCE`), people with
    `hermes-poll fire`."""
    wanted = event if isinstance(event, Event) else _by_name(event, None)
    checked_pair(DEFAULT_NAMESPACE, wanted.name, instance_id)
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("fire")
        wanted.codec.dump(payload, 1 << 30)
        return Nothing()
    payload_json = None if wanted.type is None else wanted.codec.dump(payload, delivery.settings.max_bytes)
    if wanted.type is None and payload is not None:
        raise TypeError(f"event {wanted.name!r} carries nothing: declare it with Event({wanted.name!r}, type)")
    return delivery.fire(
        NewEvent(
            wanted.name,
            instance_id,
            payload_json,
            namespace=delivery.run.namespace,
            ttl=wanted.ttl,
            fired_by=f"run {delivery.run.id}",
        )
    )


def _by_name(name: str, type: type[Any] | None) -> Event[Any]:
    known = DECLARED.get(name)
    return known if known is not None and type in (None, known.type) else Event(name, type)
