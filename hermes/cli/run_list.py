"""Runs as a list: one line each with what a person asks next, why it is as it is or what it waits for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes.cli.output import STATES, as_json, cut, instant, near, say, table
from hermes.model.run import RunState
from hermes.run_lists import why_stuck

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.cli.run_choice import Choice
    from hermes.model.run import Run
    from hermes.ports.survey import WaitFor
    from hermes.run_lists import ListedRun, RunList

SHOWN = 16
"""Characters of an id in a list: enough to name a run by."""


def print_list(hermes: App, found: RunList, choice: Choice, limit: int) -> None:
    if not found.runs:
        say(_none(found, choice))
        return
    if choice.states == [RunState.waiting]:
        _print_waiting(hermes, found)
    else:
        _print_runs(hermes, found, stuck=choice.stuck)
    if len(found.runs) == limit:
        say(f"(The newest {limit}; --limit shows more.)")


def _print_runs(hermes: App, found: RunList, *, stuck: bool) -> None:
    lease = hermes.configuration.workers.lease

    def why(one: ListedRun) -> str:
        told = why_stuck(one.run, found.now, lease) if stuck else None
        return told or reason(hermes, one.run) or ", ".join(waits_for(wait) for wait in one.waits)

    table(
        ("RUN", "STATE", "STARTED", "POLL", "FUNCTION", "TITLE", "WHY"),
        [
            (
                one.run.id[:SHOWN],
                one.run.state.value,
                near(one.run.started_at or one.run.created_at, found.now),
                one.run.poll_id,
                cut(one.run.function, 40),
                cut(one.title or one.run.key, 50),
                cut(hermes.redactor.text(why(one)), 100),
            )
            for one in found.runs
        ],
        styles=STATES,
    )


def _print_waiting(hermes: App, found: RunList) -> None:
    rows = []
    for one in found.runs:
        told = [waits_for(wait) for wait in one.waits] or [reason(hermes, one.run)]
        what = told[0] if len(told) == 1 else f"the first of {', '.join(told)}"
        since = near(one.run.changed_at, found.now)
        rows.append((one.run.id[:SHOWN], since, until(one.run, found.now), cut(one.title or one.run.key, 50), what))
    table(
        ("RUN", "SINCE", "UNTIL", "TITLE", "WAITS FOR"),
        [(*row[:4], cut(hermes.redactor.text(row[4]), 160)) for row in rows],
    )


def waits_for(wait: WaitFor) -> str:
    if wait.what == "event":
        return f"event {wait.name} for {wait.about}"
    if wait.what == "run":
        return f"run {(wait.about or '')[:SHOWN]} of {wait.name}"
    return f"another attempt of {wait.name}" if wait.what == "attempt" else "a delay"


def until(run: Run, now: datetime) -> str:
    return f"{instant(run.due_at)} ({near(run.due_at, now)})" if run.due_at is not None else "for ever"


def reason(hermes: App, run: Run) -> str:
    return hermes.redactor.text(run.reason or (run.error.message if run.error else "") or run.cancel_reason or "")


def _none(found: RunList, choice: Choice) -> str:
    """Why the list is empty, and where to look instead."""
    total = sum(found.in_all.values())
    if not total:
        return "No runs yet: no card has been claimed and no function started."
    there = ", ".join(f"{count} {state}" for state, count in sorted(found.in_all.items()))
    if choice.stuck:
        return f"No run is stuck. There are {there}."
    if choice.unknown_function:
        return f"This code has the function of every run that is due. There are {there}."
    return f"No such runs. There are {there}; `hermes-poll runs list` without options shows the newest."


def listed_json(hermes: App, found: RunList) -> list[dict[str, Any]]:
    lease = hermes.configuration.workers.lease
    shown: list[dict[str, Any]] = hermes.redactor.value(
        [
            as_json(one.run)
            | {"title": one.title, "waits": as_json(one.waits), "overdue": why_stuck(one.run, found.now, lease)}
            for one in found.runs
        ]
    )
    return shown
