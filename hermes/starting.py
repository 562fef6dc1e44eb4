"""Starting a run under a key, and finding it again, for the API and the command line alike."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hermes.app import App
from hermes.durable.function import Function
from hermes.durable.registry import REGISTRY
from hermes.durable.settings import EngineSettings
from hermes.errors import HermesError
from hermes.model.json import JSON
from hermes.model.key import user_key
from hermes.model.run import NewRun, Run, RunKind
from hermes.validated import NotFitting, checked

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

MAX_BYTES = EngineSettings().max_bytes


class NotAKey(HermesError):
    """The text says why."""


class UnknownFunction(HermesError):
    """No durable function of that name is in the modules of `functions:`."""


class KeyOfAnother(HermesError):
    """A run of another function has this key."""


@dataclass(frozen=True, slots=True)
class Started:
    run: Run
    created: bool
    """False: it was there already, and nothing was started."""


def start(
    app: App, function: str, key: str, args: dict[str, JSON], *, namespace: str, due_at: datetime | None = None
) -> Started:
    """Raises NotAKey, UnknownFunction, NotFitting, KeyOfAnother, StoreUnavailable."""
    found = REGISTRY.find(function)
    if not isinstance(found, Function):
        raise UnknownFunction(f"there is no durable function {function[:200]!r}")
    checked(f"the arguments of {found.name}", lambda: found.arguments.from_json(args))
    if len(json.dumps(args, ensure_ascii=False).encode()) > MAX_BYTES:
        raise NotFitting(f"the arguments of {found.name} are more than {MAX_BYTES:,} bytes")
    new = NewRun(
        key=stored_key(namespace, key),
        kind=RunKind.function,
        function=found.name,
        args=args,
        due_at=due_at,
        namespace=namespace,
    )

    def enqueue(unit: UnitOfWork) -> Started:
        run_id, created = unit.runs.enqueue(new)
        run = unit.runs.get(run_id)
        assert run is not None  # noqa: S101 - of this very transaction
        # One that has gone on as another function is still the run that was started.
        if run.function != found.name and not run.continued:
            raise KeyOfAnother(f"a run of another function has the key {key!r}")
        return Started(run, created)

    return app.store.commit(enqueue)


def stored_key(namespace: str, key: str) -> str:
    """Raises NotAKey."""
    try:
        return user_key(namespace, key)
    except ValueError as error:
        raise NotAKey(str(error)) from None


def started_run(app: App, namespace: str, key: str) -> Run | None:
    """Raises NotAKey."""
    with app.store.read() as unit:
        return unit.runs.by_key(stored_key(namespace, key))


def near_functions(name: str) -> list[str]:
    """For people at this machine: what they may have meant."""
    known = [each for each in REGISTRY.names() if isinstance(REGISTRY.find(each), Function)]
    return get_close_matches(name, known, n=3, cutoff=0.5)
