"""`run-once`: one round, for timers of the system."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.cli.context import working_app
from hermes.cli.exits import Code

if TYPE_CHECKING:
    from hermes.once import Round


def run_once(
    ctx: typer.Context,
    poll: Annotated[
        list[str] | None, typer.Argument(metavar="[POLL]...", help="These, due or not; left out: all that are due.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0, help="Stay while something is due within this time."),
    ] = 15.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document at the end.")] = False,
) -> None:
    """Run polls once, work their cards until nothing is due soon, and exit: for cron and systemd timers.

    Exits with 1 when a poll failed or a run ended failed or parked.
    """
    from hermes.cli.output import STATES, cut, print_json, say, table
    from hermes.cli.up import signals
    from hermes.once import run_once

    with signals() as stop, working_app(ctx) as app:
        done = run_once(app, poll or (), timedelta(seconds=wait), stop)
        if json:
            print_json(app.redactor.value(_json(done)))
        else:
            if not done.polls:
                say("No poll was due.")
            else:
                rows = [
                    (it.poll_id, it.health, cut(app.redactor.text(it.last_error or it.last_note or ""), 200))
                    for it in done.polls
                ]
                table(("POLL", "HEALTH", "NOTE"), rows, styles=STATES)
            if done.ended:
                rows = [
                    (
                        it.id,
                        it.state.value,
                        cut(app.redactor.text(it.reason or (it.error.message if it.error else "")), 200),
                    )
                    for it in done.ended
                ]
                table(("RUN", "STATE", "WHY"), rows, styles=STATES)
            for name in done.skipped:
                say(f"{name} did not run: another process holds it.")
            waiting = sum(done.left.candidates.values())
            if waiting:
                say(f"{waiting} card(s) are left waiting for the next round.")
    if done.failed:
        raise typer.Exit(Code.failed)


def _json(done: Round) -> dict[str, object]:
    from hermes.cli.output import as_json

    shown: dict[str, object] = {**as_json(done), "ok": not done.failed}
    return shown
