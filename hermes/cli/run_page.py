"""A run as a person reads it: its head, its timeline, its steps, its effects, and its card's log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from hermes.cli.output import STATES, cut, instant, near, say, table
from hermes.cli.run_list import waits_for
from hermes.cli.run_timeline import COLUMNS, rows

if TYPE_CHECKING:
    from hermes.model.run import Run
    from hermes.model.step import Step
    from hermes.operations import RunStory


def print_story(told: RunStory, redact: Callable[[str], str], *, traces: bool = False) -> None:
    _head(told, redact)
    if told.waits:
        say("", "Waits for")
        table(
            ("STEP", "WHAT", "SINCE", "UNTIL"),
            [
                (wait.seq, redact(waits_for(wait)), _at(wait.since, told.now), _at(wait.until, told.now) or "for ever")
                for wait in told.waits
            ],
        )
    say("", "Timeline")
    table(COLUMNS, rows(told.timeline, told.steps, told.run.created_at, redact), styles=STATES)
    if told.steps:
        say("", "Steps")
        table(
            ("STEP", "KIND", "NAME", "STATE", "ATTEMPTS", "EFFECT", "RESULT OR ERROR"),
            [_step(step, redact) for step in told.steps],
            styles=STATES,
        )
    if told.receipts:
        say("", "Late results, kept")
        table(
            ("AT", "STEP", "ATTEMPT", "RESULT"),
            [
                (instant(one.received_at), f"{one.seq} {one.name}", one.attempt, cut(redact(one.result_json), 300))
                for one in told.receipts
            ],
        )
    if told.children:
        say("", "Effects and other runs that it started")
        table(
            ("RUN", "STATE", "FUNCTION", "KEY"),
            [(child.id, child.state.value, child.function, cut(child.key, 120)) for child in told.children],
            styles=STATES,
        )
    if told.board_log:
        say("", "Written to its card")
        table(
            ("AT", "KIND", "OUTCOME", "VALUES"),
            [
                (
                    instant(write.sent_at),
                    write.kind,
                    write.outcome,
                    cut(redact(", ".join(f"{name} {value}" for name, value in write.wanted.items()) or ""), 200)
                    + (f" ({redact(write.error)})" if write.error else ""),
                )
                for write in told.board_log
            ],
            styles=STATES,
        )
    _traces(told, redact, traces)


def _traces(told: RunStory, redact: Callable[[str], str], wanted: bool) -> None:
    found = [(f"step {step.seq} {step.name}", step.error) for step in told.steps if step.error and step.error.trace]
    if told.run.error is not None and told.run.error.trace:
        found.append(("the run", told.run.error))
    if found and not wanted:
        say("", "(--trace shows where errors were raised.)")
    for where, error in found if wanted else ():
        say("", f"Where {where} failed", redact((error.trace or "").rstrip()))


def _head(told: RunStory, redact: Callable[[str], str]) -> None:
    run, now = told.run, told.now
    say(f"Run {run.id} ({run.kind}) is {run.state}{_until(run, now)}.")
    lines = [
        ("function", run.function),
        ("key", run.key),
        ("poll", run.poll_id),
        ("condition", run.condition_version),
        ("created", _at(run.created_at, now)),
        ("started", _at(run.started_at, now)),
        ("finished", _at(run.finished_at, now)),
        ("deliveries", f"{run.deliveries} failed of {run.max_deliveries}" if run.deliveries else None),
        ("taken over", f"{run.take_overs} times" if run.take_overs else None),
        ("asked again", f"{run.duplicates} times; each got this run" if run.duplicates else None),
        ("started by", run.parent_run_id),
        ("awaited by", ", ".join(told.awaited_by)),
        ("result", None if run.result is None else cut(redact(str(run.result)), 500)),
        ("reason", run.reason and redact(run.reason)),
        ("details", None if run.whole else "are no longer kept: retention has left key and ending"),
        ("asked to stop", run.cancel_reason and redact(run.cancel_reason)),
        ("error", run.error and redact(f"{run.error.short_kind}: {run.error.message}")),
    ]
    if told.card is not None:
        card = told.card
        lines.append(("card", f"{card.title or '(no title)'}  {card.url}"))
        with_us = f"{card.state}, generation {card.generation}"
        lines.append(("claim", with_us if told.owns_card else f"the card is with run {card.run_id} now ({with_us})"))
        lines.append(("claimed until", _at(card.board_expires_at, now)))
        lines.append(("claim's note", card.note and redact(card.note)))
    for name, value in lines:
        if value:
            say(f"  {name:14} {value}")


def _until(run: Run, now: datetime) -> str:
    if run.held:
        return ", held until its card is claimed"
    if run.due_at is not None and not run.state.final and run.due_at > now:
        return f" until {instant(run.due_at)} ({near(run.due_at, now)})"
    return ""


def _at(moment: datetime | None, now: datetime) -> str | None:
    return f"{instant(moment)} ({near(moment, now)})" if moment else None


def _step(step: Step, redact: Callable[[str], str]) -> tuple[object, ...]:
    said = step.result_json or ""
    if step.error is not None:
        said = f"{step.error.short_kind}: {step.error.message}"
    elif step.awaits_run_id:
        said = f"run {step.awaits_run_id}"
    elif step.due_at is not None and step.state.value == "waiting":
        said = f"until {instant(step.due_at)}"
    before = step.attempts_before if step.attempts_before < step.attempts else 0
    shown = f"{step.attempts - before} (after {before})" if before else step.attempts
    effect = step.effect.value if step.effect else ""
    return step.seq, step.kind.value, step.name, step.state.value, shown or "", effect, cut(redact(said), 300)
