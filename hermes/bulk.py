"""The same done to many runs: each is a transaction of its own, says what came of it, and keeps no other from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hermes.app import App
from hermes.errors import HermesError
from hermes.model.run import Run, RunState
from hermes.operations import cancel_run, resume_run
from hermes.ports.runs import Decision, Resumed
from hermes.ports.survey import RunFilter

PAGE = 500


class Came(StrEnum):
    """What came of it."""

    changed = "changed"
    already = "already"
    refused = "refused"


@dataclass(frozen=True, slots=True)
class Change:
    run: Run
    """As it was before."""
    came: Came
    why: str
    """In plain words."""


def choose(app: App, wanted: RunFilter, limit: int | None = None) -> list[Run]:
    """Oldest first, as they would have run."""
    found: list[Run] = []
    while limit is None or len(found) < limit:
        size = PAGE if limit is None else min(PAGE, limit - len(found))
        with app.store.read() as uow:
            page = uow.survey.runs(wanted, size, oldest=True, after=found[-1] if found else None)
        found += page
        if len(page) < size:
            break
    return found


def resume_each(
    app: App, runs: Iterable[Run], *, decision: Decision | None, by: str, dry_run: bool
) -> Iterator[Change]:
    for run in runs:
        try:
            resumed = resume_run(app, run.id, decision=decision, by=by, dry_run=dry_run)
        except HermesError as error:
            yield Change(run, Came.refused, str(error))
            continue
        match resumed:
            case Resumed.resumed:
                yield Change(run, Came.changed, "goes on")
            case Resumed.needs_decision:
                yield Change(run, Came.refused, "has a step that may have happened: find out, then resume it by itself")
            case Resumed.forgotten:
                yield Change(run, Came.refused, "cannot go on: its steps are no longer kept")
            case Resumed.unknown_run:
                yield Change(run, Came.refused, "is gone")
            case _ if run.state in (RunState.succeeded, RunState.refused):
                yield Change(run, Came.refused, f"has {run.state}: there is nothing to resume")
            case _:
                yield Change(run, Came.already, "goes on already")


def cancel_each(app: App, runs: Iterable[Run], *, reason: str, dry_run: bool) -> Iterator[Change]:
    for run in runs:
        try:
            after = cancel_run(app, run.id, reason, dry_run=dry_run)
        except HermesError as error:
            yield Change(run, Came.refused, str(error))
            continue
        if after is RunState.cancelled:
            yield Change(run, Came.changed, "is cancelled")
        elif after is not None and run.cancel_reason is not None:
            yield Change(run, Came.already, "is asked to stop already")
        elif after is not None:
            yield Change(run, Came.changed, "is asked to stop; it stops at its next step")
        elif run.state is RunState.cancelled:
            yield Change(run, Came.already, "is cancelled already")
        else:
            yield Change(run, Came.refused, "is over already")
