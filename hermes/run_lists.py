"""Runs as people ask for them: which fit a filter, what each waits for, and why one is stuck. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hermes.app import App
from hermes.durable.registry import REGISTRY, load_functions
from hermes.model.run import Run, RunState
from hermes.ports.survey import OVERDUE_LEASES, RunFilter, WaitFor


@dataclass(frozen=True, slots=True)
class ListedRun:
    run: Run
    title: str | None
    """Of its card."""
    waits: tuple[WaitFor, ...]


@dataclass(frozen=True, slots=True)
class RunList:
    runs: tuple[ListedRun, ...]
    """Newest first."""
    in_all: Mapping[RunState, int]
    """When there is none to list: how many there are, whatever was asked for, without effects."""
    now: datetime


def list_runs(app: App, wanted: RunFilter, limit: int) -> RunList:
    with app.store.read() as uow:
        found = uow.survey.runs(wanted, limit)
        titles = uow.survey.titles([run.object_id for run in found if run.object_id])
        waits = uow.survey.waits_of([run.id for run in found if run.state is RunState.waiting])
        listed = tuple(ListedRun(run, titles.get(run.object_id or ""), tuple(waits.get(run.id, ()))) for run in found)
        return RunList(listed, {} if found else uow.survey.runs_by_state(), uow.now)


def known_functions(app: App) -> frozenset[str]:
    """Names of all that this code can run: imports the operator's modules. Raises ConfigError."""
    load_functions(app.configuration.functions, app.configuration.folder)
    return frozenset(REGISTRY.names())


def why_stuck(run: Run, now: datetime, lease: timedelta) -> str | None:
    """In plain words, of a run that `Survey.runs` calls stuck; None of another."""
    overdue = now - OVERDUE_LEASES * lease
    if run.state is RunState.running and run.lease_until is not None and run.lease_until < now - lease:
        since = f"{run.lease_until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"its lease is over since {since} and nobody took it over: is a worker up?"
    if run.state not in (RunState.ready, RunState.waiting):
        return None
    if run.held:
        return "it is held, and no card will release it: cancel it" if (run.changed_at or now) < overdue else None
    if run.due_at is None:
        return "nothing is left that could wake it" if run.state is RunState.waiting else None
    return "it is due and no worker has taken it: is one up that knows its function?" if run.due_at < overdue else None
