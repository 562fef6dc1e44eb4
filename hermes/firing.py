"""Firing an event from outside a run, for the API and the command line alike: checked against its declaration, stored
in one transaction, and told where it went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermes.app import App
from hermes.durable.events import DECLARED
from hermes.durable.settings import EngineSettings
from hermes.errors import HermesError
from hermes.model.event import DEFAULT_TTL, MAX_EVENT_ID, NewEvent, checked_pair
from hermes.model.json import JSON
from hermes.model.namespace import checked_namespace
from hermes.model.run import Run
from hermes.strict_json import canonical
from hermes.validated import NotFitting, checked

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

SHORTEST_TTL, LONGEST_TTL = timedelta(seconds=1), timedelta(days=366)
MAX_KEPT = EngineSettings().max_kept


class NotAnEvent(HermesError):
    """Its name, instance, id or time cannot be one; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where an event went."""

    event_id: int
    duplicate: bool
    """Its id had been fired before: nothing happened now."""
    run: RunRef | None
    """Whose wait took it."""
    kept_until: datetime | None


@dataclass(frozen=True, slots=True)
class RunRef:
    id: str
    key: str | None
    """As its starter gave it; None when the run is removed."""


def fire(
    app: App,
    name: str,
    instance_id: str,
    payload: tuple[JSON] | None,
    *,
    namespace: str,
    event_id: str | None = None,
    ttl: timedelta | None = None,
    fired_by: str,
) -> Delivery:
    """`payload` in a tuple, so that a `null` is not none at all. Raises NotAnEvent, NotFitting, EventIdReused,
    TooManyKept, StoreUnavailable."""
    declared = DECLARED.get(name)
    try:
        checked_pair(checked_namespace(namespace), name, instance_id)
    except ValueError as error:
        raise NotAnEvent(str(error)) from None
    if event_id is not None and not (event_id.strip() and len(event_id) <= MAX_EVENT_ID and event_id.isprintable()):
        raise NotAnEvent(f"an event id has 1 to {MAX_EVENT_ID} characters that can be seen")
    if ttl is None:
        ttl = declared.ttl if declared is not None else DEFAULT_TTL
    elif not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        raise NotAnEvent(f"an event is kept between 1 second and {LONGEST_TTL.days} days")
    new = NewEvent(
        name,
        instance_id,
        _checked_payload(name, payload),
        event_id=event_id,
        namespace=namespace,
        ttl=ttl,
        fired_by=fired_by,
    )

    def store(unit: UnitOfWork) -> Delivery:
        fired = unit.events.fire(new, max_kept=MAX_KEPT)
        run = unit.runs.get(fired.run_id) if fired.run_id is not None else None
        taken_by = None if fired.run_id is None else RunRef(fired.run_id, shown_key(run) if run else None)
        return Delivery(fired.id, fired.duplicate, taken_by, fired.kept_until)

    return app.store.commit(store)


def shown_key(run: Run) -> str:
    """As whoever started it gave it; of runs that nobody started by a key, the one they have."""
    return run.key.removeprefix(f"run:{run.namespace}:")


def _checked_payload(name: str, payload: tuple[JSON] | None) -> str | None:
    declared = DECLARED.get(name)
    if payload is None:
        if declared is not None and declared.type is not None:
            raise NotFitting(f"event {name!r} carries a payload, and none was given")
        return None
    text = canonical(payload[0])
    if declared is not None:
        if declared.type is None:
            raise NotFitting(f"event {name!r} carries nothing, and a payload was given")
        checked(f"the payload of event {name!r}", lambda: declared.codec.load(text))
    return text
