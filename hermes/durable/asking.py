"""What a durable function asks the engine for: delays, and values that are recorded so that a replay sees the same."""

from __future__ import annotations

import random as chance
import uuid as uuids
from collections.abc import Awaitable
from datetime import datetime, timedelta

from hermes.clock import SystemClock
from hermes.durable.codec import Codec
from hermes.durable.context import driving, only_in_a_function
from hermes.durable.outside import Nobody, Nothing

_NOW = Codec(datetime, "now()")
_UUID = Codec(uuids.UUID, "uuid()")
_RANDOM = Codec(float, "random()")


def delay(length: timedelta) -> Awaitable[None]:
    """A handle that is due `length` after it is called, however often and whenever it is awaited. The run hibernates:
    it holds no thread, slot, lease or place meanwhile. Outside a run there is nothing to wait for."""
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("delay")
        return Nothing()
    return delivery.delay(length)


def ask_a_person(reason: str) -> Awaitable[None]:
    """The run parks with this reason, for people to read (`hermes-poll runs list --parked`), and goes on from here
    once somebody resumes it. What they decide comes by an event, if it is more than that. Outside a run there is
    nobody to ask."""
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("ask_a_person")
        return Nobody(reason)
    return delivery.ask_a_person(reason)


def now() -> datetime:
    """The time, aware UTC; recorded."""
    delivery = driving.get()
    if delivery is None:
        return SystemClock().now()
    found: datetime = delivery.value("now", _NOW, delivery.now)
    return found


def uuid() -> uuids.UUID:
    """A random UUID; recorded."""
    delivery = driving.get()
    if delivery is None:
        return uuids.uuid4()
    found: uuids.UUID = delivery.value("uuid", _UUID, uuids.uuid4)
    return found


def random() -> float:
    """A random number from 0 up to 1; recorded. Not for secrets."""
    delivery = driving.get()
    if delivery is None:
        return chance.random()  # noqa: S311
    found: float = delivery.value("random", _RANDOM, chance.random)
    return found


def patched(name: str) -> bool:
    """Whether this run may take the new way of code that changed under sleeping runs:

        if patched("ask twice"):
            await ask_twice()

    Yes for runs that come here for the first time, and from then on; no, at every replay, for one that had gone on
    from here before. Once no old run is left, the call and the old way may be removed. Outside a run: yes."""
    delivery = driving.get()
    return True if delivery is None else delivery.patched(name)
