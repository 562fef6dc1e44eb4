"""`polls`: what each one does, how it is, and asking it to run, pause or go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from datetime import datetime

    from hermes.app import App
    from hermes.operations import PollView

app = typer.Typer(no_args_is_help=True, help="List polls, look at one, run, pause or resume it.")

Name = Annotated[str, typer.Argument(metavar="POLL", help="Its id, which is its file's name.")]
Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]


@app.command("list")
def list_polls(
    ctx: typer.Context,
    removed: Annotated[bool, typer.Option("--all", help="Also those whose file is gone.")] = False,
    json: Json = False,
) -> None:
    """How every poll is: health, when it runs next, when it last worked, what waits and what is claimed."""
    from hermes.cli.output import STATES, cut, near, print_json, say, table, warn
    from hermes.operations import polls

    with looking_app(ctx, needs_database=False) as hermes:
        found = polls(hermes, removed=removed)
        if json:
            unstarted = [{"poll_id": name, "health": "new", "status": None} for name in found.unstarted]
            print_json({"polls": [*map(_json, found.views), *unstarted], "now": found.now})
            return
        if not found.views and not found.unstarted:
            say("No polls yet: put one into the polls/ folder of the configuration.")
            return
        rows: list[tuple[object, ...]] = []
        for view in found.views:
            poll = view.poll
            cause = view.stopped or (poll.last_error if poll.failing_since else None) or poll.disabled_reason
            rows.append(
                (
                    poll.poll_id,
                    view.health,
                    near(poll.next_start_at, found.now) if poll.status == "active" else "",
                    near(poll.last_ok_at, found.now) or "never",
                    view.waiting,
                    view.claimed,
                    cut(redacted(hermes, cause or poll.last_note or ""), 100),
                )
            )
        rows += [(name, "new", "", "never", "", "", "no process has seen it yet") for name in found.unstarted]
        table(("POLL", "HEALTH", "NEXT", "LAST OK", "WAITING", "CLAIMED", "NOTE"), rows, styles=STATES)
        if found.unstarted:
            warn("Polls that no process has seen start with `hermes-poll up`.")


@app.command("show")
def show_poll(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Everything about one poll, with its last occurrences that did something."""
    from hermes.cli.output import STATES, cut, instant, near, print_json, say, table
    from hermes.operations import poll

    with looking_app(ctx) as hermes:
        view, occurrences, now = poll(hermes, name)
        if json:
            print_json({**_json(view), "occurrences": list(occurrences), "now": now})
            return
        row = view.poll
        say(f"{row.poll_id} is {view.health}." + (f"  ({view.file})" if view.file else ""))
        for line in _lines(hermes, view, now):
            say(f"  {line}")
        if not occurrences:
            say("No occurrence has done anything yet.")
            return
        table(
            ("OCCURRENCE", "ENDED", "STATE", "TOOK", "CHECKED", "MATCHED", "CHANGED", "CLAIMED", "NOTE"),
            [
                (
                    instant(it.due_at),
                    near(it.finished_at, now),
                    it.state,
                    f"{(it.finished_at - it.started_at).total_seconds():.1f} s",
                    it.checked,
                    it.matched,
                    it.changed,
                    it.claimed,
                    cut(redacted(hermes, " ".join(filter(None, (it.error, it.note)))), 200),
                )
                for it in occurrences
            ],
            styles=STATES,
        )


@app.command("run")
def run_poll(
    ctx: typer.Context,
    name: Name,
    wait: Annotated[
        float | None, typer.Option("--wait", metavar="SECONDS", help="Wait this long for it to have run.", min=0)
    ] = None,
    json: Json = False,
) -> None:
    """Ask for a run now. A `hermes-poll up` that is running does it; `hermes-poll run-once POLL` does it here."""
    from hermes.cli.output import tell
    from hermes.operations import change_poll

    with looking_app(ctx) as hermes:
        change_poll(hermes, name, "run")
        if wait is None or json:
            line = f"{name} is asked to run: a running `hermes-poll up` does it at its next tick."
            tell(json, line, poll=name, asked="run")
        if wait is None:
            return
        _wait_for(hermes, name, wait)


@app.command("pause")
def pause_poll(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Start no more occurrences, until `resume`. Cards it has claimed are finished."""
    from hermes.cli.output import tell
    from hermes.operations import change_poll

    with looking_app(ctx) as hermes:
        done = change_poll(hermes, name, "pause")
        line = f"{name} is paused." if done else f"{name} is paused already."
        tell(json, line, poll=name, asked="pause", changed=done)


@app.command("resume")
def resume_poll(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Let a paused or disabled poll go on; it is due at once."""
    from hermes.cli.output import tell
    from hermes.operations import change_poll

    with looking_app(ctx) as hermes:
        done = change_poll(hermes, name, "resume")
        line = f"{name} goes on." if done else f"{name} is active already."
        tell(json, line, poll=name, asked="resume", changed=done)


def redacted(hermes: App, text: str) -> str:
    return hermes.redactor.text(text)


def _wait_for(hermes: App, name: str, seconds: float) -> None:
    from hermes.cli.output import say

    over = hermes.clock.boot_seconds() + seconds
    while True:
        with hermes.store.read() as uow:
            row = uow.polls.get(name)
        if row is not None and row.asked_at is None:
            break
        if hermes.clock.boot_seconds() >= over:
            raise CommandError(
                f"{name} has not run within {seconds:g} s: is a `hermes-poll up` running on this database? It stays "
                f"asked for; `hermes-poll run-once {name}` runs it here.",
                Code.failed,
            )
        hermes.clock.sleep(0.1)
    if row.failing_since is not None:
        raise CommandError(redacted(hermes, f"{name} ran and failed: {row.last_error}"), Code.failed)
    say(f"{name} ran: {row.last_note or 'nothing to say'}.")


def _lines(hermes: App, view: PollView, now: datetime) -> list[str]:
    from hermes.cli.output import instant, near

    def at(moment: datetime | None, otherwise: str) -> str:
        return f"{instant(moment)} ({near(moment, now)})" if moment else otherwise

    row = view.poll
    lines = [f"board          {view.board or 'none'}"]
    if row.status == "active":
        lines.append(f"next           {at(row.next_start_at, 'never')}")
    lines += [
        f"last run       {at(row.last_run_at, 'never')}",
        f"last ok        {at(row.last_ok_at, 'never')}",
    ]
    if row.failing_since is not None:
        lines.append(f"failing since  {at(row.failing_since, '')}, {row.failure_count} in a row")
        lines.append(f"cause          {redacted(hermes, row.last_error or '')}")
    if row.disabled_reason:
        lines.append(f"disabled       {redacted(hermes, row.disabled_reason)}")
    if view.stopped:
        lines.append(f"board stopped  {redacted(hermes, view.stopped)}")
    if row.asked_at:
        lines.append(f"asked for      {at(row.asked_at, '')}")
    if row.last_note:
        lines.append(f"note           {redacted(hermes, row.last_note)}")
    lines += [
        f"cards          {view.waiting} waiting, {view.claimed} claimed",
        f"counts         {row.occurrence_count} occurrences, {row.checked_count} checked, {row.matched_count} matched, "
        f"{row.changed_count} changed, {row.claimed_count} claimed",
        f"definition     {row.definition_version} (condition {row.condition_version})",
    ]
    return lines


def _json(view: PollView) -> dict[str, Any]:
    from hermes.cli.output import as_json

    return {
        **as_json(view.poll),
        "health": view.health,
        "board": view.board,
        "file": view.file,
        "waiting": view.waiting,
        "claimed": view.claimed,
        "stopped": view.stopped,
    }
