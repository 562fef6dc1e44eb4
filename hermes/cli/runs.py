"""`runs`: what was executed, why and how it ended; resuming and cancelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.cli import choices
from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.model.run import Run
    from hermes.operations import RunStory

SHOWN = 16
"""Characters of an id in a list: enough to name a run by."""

app = typer.Typer(no_args_is_help=True, help="List runs, read one whole, resume or cancel it.")

Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Which = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id or the beginning of it, its key, or its card's id or title.")
]


@app.command("list")
def list_runs(
    ctx: typer.Context,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            callback=choices.of(choices.STATES),
            help=f"Only these ({', '.join(choices.STATES)}); may be given again.",
        ),
    ] = None,
    poll: Annotated[str | None, typer.Option("--poll", metavar="POLL", help="Started by this poll.")] = None,
    card: Annotated[str | None, typer.Option("--card", metavar="CARD", help="Of this card: its id or title.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The dead letters.")] = False,
    parked: Annotated[bool, typer.Option("--parked", help="Those that wait for a person.")] = False,
    effects: Annotated[
        bool, typer.Option("--effects", help="Also effects, which are runs of a single command.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 50,
    json: Json = False,
) -> None:
    """The newest runs."""
    from hermes.cli.output import STATES, cut, near, print_json, say, table
    from hermes.model.run import RunState
    from hermes.operations import find_card, list_runs

    wanted = [RunState(word) for word in state or ()]
    wanted += [RunState.failed] * failed + [RunState.parked] * parked
    with looking_app(ctx, needs_database=False) as hermes:
        if not hermes.database_exists():
            print_json({"runs": []}) if json else say("No runs yet: nothing has been started (`hermes-poll up`).")
            return
        object_id = None if card is None else find_card(hermes, card)
        found = list_runs(hermes, states=wanted, poll_id=poll, object_id=object_id, effects=effects, limit=limit)
        if json:
            print_json({"runs": [_run_json(hermes, run) | {"title": title} for run, title in found.runs]})
            return
        if not found.runs:
            say("No such runs." if wanted or poll or card else "No runs yet: no card has been claimed.")
            return
        table(
            ("RUN", "STATE", "STARTED", "POLL", "TITLE", "WHY"),
            [
                (
                    run.id[:SHOWN],
                    run.state.value,
                    near(run.started_at or run.created_at, found.now),
                    run.poll_id,
                    cut(title or run.key, 50),
                    cut(_why(hermes, run), 100),
                )
                for run, title in found.runs
            ],
            styles=STATES,
        )
        if len(found.runs) == limit:
            say(f"(The newest {limit}; --limit shows more.)")


@app.command("show")
def show_run(ctx: typer.Context, run: Which, json: Json = False) -> None:
    """One run whole: what it did, step by step, what it changed, and what was written to its card."""
    from hermes.cli.output import print_json
    from hermes.cli.run_page import print_story
    from hermes.operations import find_run, story

    with looking_app(ctx) as hermes:
        told = story(hermes, find_run(hermes, run))
        if json:
            print_json(_story_json(hermes, told))
        else:
            print_story(told, hermes.redactor.text)


@app.command("resume")
def resume(
    ctx: typer.Context,
    run: Which,
    as_done: Annotated[
        bool, typer.Option("--as-done", help="A step that may have happened did happen: take it as done.")
    ] = False,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="With --as-done: what the step had returned.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="It did not happen, or may happen twice: do it again.")
    ] = False,
    json: Json = False,
) -> None:
    """Continue a failed, parked or cancelled run under its key. What is finished stays finished."""
    from hermes.cli.output import tell
    from hermes.model.run import RunState
    from hermes.operations import find_run, resume_run
    from hermes.ports.runs import Decision, Resumed

    if as_done and again:
        raise typer.BadParameter("say --as-done or --again, not both")
    if result is not None:
        _check_json(result, as_done)
    decision = Decision.done if as_done else Decision.again if again else None
    with looking_app(ctx) as hermes:
        found = find_run(hermes, run)
        match resume_run(hermes, found.id, decision=decision, result_json=result, by="cli"):
            case Resumed.resumed:
                card = " once its card is claimed again" if found.kind.value == "card" else ""
                line = f"Run {found.id} goes on{card}: a running `hermes-poll up` does it."
                tell(json, line, run=found.id, asked="resume", changed=True)
            case Resumed.not_stopped if found.state in (RunState.succeeded, RunState.refused):
                raise CommandError(f"Run {found.id} has {found.state}: there is nothing to resume.", Code.failed)
            case Resumed.not_stopped:
                line = f"Run {found.id} is {found.state} already: nothing was changed."
                tell(json, line, run=found.id, asked="resume", changed=False)
            case Resumed.needs_decision:
                raise CommandError(_in_doubt(hermes, found), Code.usage)
            case Resumed.unknown_run:
                raise CommandError(f"Run {found.id} is gone.", Code.not_found)


@app.command("cancel")
def cancel(
    ctx: typer.Context,
    run: Which,
    reason: Annotated[str, typer.Option("--reason", help="Shown on the card.")] = "cancelled from the command line",
    json: Json = False,
) -> None:
    """Stop a run: at once when it waits, at its next step when it works. Its card is Failed with the reason."""
    from hermes.cli.output import tell
    from hermes.model.run import RunState
    from hermes.operations import cancel_run, find_run

    with looking_app(ctx) as hermes:
        found = find_run(hermes, run)
        after = cancel_run(hermes, found.id, reason)
        if after is RunState.cancelled:
            tell(json, f"Run {found.id} is cancelled.", run=found.id, asked="cancel", changed=True, state=after)
        elif after is not None:
            line = f"Run {found.id} is asked to stop; it stops at its next step."
            tell(json, line, run=found.id, asked="cancel", changed=True, state=after)
        elif found.state is RunState.cancelled:
            line = f"Run {found.id} is cancelled already."
            tell(json, line, run=found.id, asked="cancel", changed=False, state=found.state)
        else:
            raise CommandError(f"Run {found.id} is over already: it has {found.state}.", Code.failed)


def _check_json(text: str, as_done: bool) -> None:
    import json

    if not as_done:
        raise typer.BadParameter("--result goes with --as-done")
    try:
        json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--result is no JSON: {error}") from error


def _in_doubt(hermes: App, run: Run) -> str:
    from hermes.operations import steps_in_doubt

    lines = [f"Run {run.id} has a step that may have happened, and no one can ask whether it did:"]
    lines += [f"  step {step.seq} {step.name}, attempt {step.attempts}" for step in steps_in_doubt(hermes, run.id)]
    return "\n".join([*lines, "Find out, then say: --as-done (it happened) or --again (do it again)."])


def _why(hermes: App, run: Run) -> str:
    return hermes.redactor.text(run.reason or (run.error.message if run.error else "") or run.cancel_reason or "")


def _run_json(hermes: App, run: Run) -> dict[str, Any]:
    from hermes.cli.output import as_json

    shown: dict[str, Any] = hermes.redactor.value(as_json(run))
    return shown


def _story_json(hermes: App, told: RunStory) -> dict[str, Any]:
    from hermes.cli.output import as_json

    shown: dict[str, Any] = hermes.redactor.value(as_json(told))
    return shown
