"""`runs`: what was executed, why and how it ended; resuming, retrying and cancelling, one or many; removing the old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError
from hermes.cli.run_choice import (
    Choice,
    Effects,
    Failed,
    OfCard,
    OfFunction,
    OfPoll,
    OlderThan,
    Parked,
    Since,
    States,
    Stuck,
    UnknownFunction,
    Waiting,
    WithError,
)

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.model.run import Run
    from hermes.operations import RunStory
    from hermes.ports.retries import StepRetried

app = typer.Typer(no_args_is_help=True, help="List runs, read one whole, resume or cancel them, remove old ones.")

Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Which = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id or the beginning of it, its key, or its card's id or title.")
]
Several = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]...", help="Each by its id or the beginning of it, its key, or its card's id or title."
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All that the options choose, in place of naming runs.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, help="With --all: at most so many, the oldest first.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would come of it and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_runs(
    ctx: typer.Context,
    state: States = None,
    waiting: Waiting = False,
    failed: Failed = False,
    parked: Parked = False,
    stuck: Stuck = False,
    unknown_function: UnknownFunction = False,
    poll: OfPoll = None,
    card: OfCard = None,
    function: OfFunction = None,
    error: WithError = None,
    since: Since = None,
    older_than: OlderThan = None,
    effects: Effects = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 50,
    json: Json = False,
) -> None:
    """The newest runs; of several states those of any, of several other options those that fit all."""
    from hermes.cli.output import print_json, say
    from hermes.cli.run_list import listed_json, print_list
    from hermes.run_lists import list_runs

    choice = Choice(
        state=state,
        waiting=waiting,
        failed=failed,
        parked=parked,
        stuck=stuck,
        unknown_function=unknown_function,
        poll=poll,
        card=card,
        function=function,
        error=error,
        since=since,
        older_than=older_than,
        effects=effects,
    )
    with looking_app(ctx, needs_database=False) as hermes:
        if not hermes.database_exists():
            print_json({"runs": []}) if json else say("No runs yet: nothing has been started (`hermes-poll up`).")
            return
        found = list_runs(hermes, choice.wanted(hermes), limit)
        if json:
            print_json({"runs": listed_json(hermes, found)})
        else:
            print_list(hermes, found, choice, limit)


@app.command("show")
def show_run(
    ctx: typer.Context,
    run: Which,
    trace: Annotated[bool, typer.Option("--trace", help="Also where each error was raised.")] = False,
    json: Json = False,
) -> None:
    """One run whole: what it did, step by step, what it changed, and what was written to its card."""
    from hermes.cli.output import print_json
    from hermes.cli.run_page import print_story
    from hermes.operations import find_run, story

    with looking_app(ctx) as hermes:
        told = story(hermes, find_run(hermes, run))
        if json:
            print_json(_story_json(hermes, told))
        else:
            print_story(told, hermes.redactor.text, traces=trace)


@app.command("resume")
def resume(
    ctx: typer.Context,
    run: Several = None,
    as_done: Annotated[
        bool, typer.Option("--as-done", help="A step that may have happened did happen: take it as done.")
    ] = False,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="With --as-done: what the step had returned.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="It did not happen, or may happen twice: do it again.")
    ] = False,
    every: Every = False,
    state: States = None,
    failed: Failed = False,
    parked: Parked = False,
    poll: OfPoll = None,
    card: OfCard = None,
    function: OfFunction = None,
    error: WithError = None,
    since: Since = None,
    older_than: OlderThan = None,
    effects: Effects = False,
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Continue failed, parked or cancelled runs under their keys. What is finished stays finished.

    Several RUNs, or --all with what chooses them, such as --failed --poll POLL --error TEXT.
    """
    from hermes.bulk import resume_each
    from hermes.cli import run_bulk
    from hermes.model.run import RunState
    from hermes.operations import find_run
    from hermes.ports.runs import Decision

    if as_done and again:
        raise typer.BadParameter("say --as-done or --again, not both")
    if result is not None:
        _check_json(result, as_done)
    choice = Choice(
        state=state,
        waiting=False,
        failed=failed,
        parked=parked,
        stuck=False,
        unknown_function=False,
        poll=poll,
        card=card,
        function=function,
        error=error,
        since=since,
        older_than=older_than,
        effects=effects,
    )
    run_bulk.check(run, choice, every=every, limit=limit)
    decision = Decision.done if as_done else Decision.again if again else None
    with looking_app(ctx) as hermes:
        if run and len(run) == 1 and not dry_run:
            _resume_one(hermes, find_run(hermes, run[0]), decision, result, json)
            return
        if decision is Decision.done:
            raise typer.BadParameter("--as-done is for one run: each needs a look of its own")
        chosen = run_bulk.chosen(hermes, run, choice, (RunState.failed, RunState.parked), limit)
        if run_bulk.agreed(hermes, "resume", chosen, ask=every and not yes and not dry_run, json=json):
            run_bulk.do(
                hermes,
                "resume",
                resume_each(hermes, chosen, decision=decision, by="cli", dry_run=dry_run),
                dry_run=dry_run,
                json=json,
            )


@app.command("retry-step")
def retry_step(
    ctx: typer.Context,
    run: Which,
    step: Annotated[int, typer.Argument(metavar="STEP", help="Its number, as `runs show` says.", min=1)],
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Grant one failed step, or one that may have happened, new attempts, and resume its run.

    It is asked for again with the same idempotency key. A late result of it, if one is kept, is taken instead.
    """
    from hermes.cli.output import tell
    from hermes.operations import find_run, retry_step
    from hermes.ports.retries import StepRetried

    with looking_app(ctx) as hermes:
        found = find_run(hermes, run)
        came = retry_step(hermes, found.id, step, by="cli", dry_run=dry_run)
        if came is not StepRetried.granted:
            _refuse_retry(found, step, came)
        told = f"Step {step} of run {found.id}"
        if dry_run:
            line = f"{told} would be tried again. Nothing was changed."
        else:
            line = f"{told} is tried again{_once_claimed(found)}: a running `hermes-poll up` does it."
        tell(json, line, run=found.id, step=step, asked="retry-step", changed=not dry_run, dry_run=dry_run)


def _refuse_retry(run: Run, step: int, came: StepRetried) -> NoReturn:
    from hermes.ports.retries import StepRetried as Came

    if came is Came.unknown_step:
        raise CommandError(f"Run {run.id} has no step {step}: `runs show` lists them.", Code.not_found)
    if came is Came.unknown_run:
        raise CommandError(f"Run {run.id} is gone.", Code.not_found)
    why = {
        Came.live: f"the run is {run.state}: it has not stopped, so it tries by itself",
        Came.over: f"the run has {run.state} and does not go on",
        Came.forgotten: "the run's steps are no longer kept (`retention: failed` of hermes.yaml)",
        Came.done: "it has its result, which stands for ever",
        Came.final: "its failure is final: the function went on from it, and later steps are recorded",
        Came.no_command: "only commands and runs that were started can be tried again",
        Came.child_over: "the run that it started has ended and does not go on",
        Came.in_doubt: "another step may have happened: `runs resume` with --as-done or --again decides that one first",
    }[came]
    raise CommandError(f"Step {step} of run {run.id} is not tried again: {why}. Nothing was changed.", Code.failed)


@app.command("cancel")
def cancel(
    ctx: typer.Context,
    run: Several = None,
    reason: Annotated[str, typer.Option("--reason", help="Shown on the card.")] = "cancelled from the command line",
    every: Every = False,
    state: States = None,
    waiting: Waiting = False,
    stuck: Stuck = False,
    unknown_function: UnknownFunction = False,
    poll: OfPoll = None,
    card: OfCard = None,
    function: OfFunction = None,
    error: WithError = None,
    since: Since = None,
    older_than: OlderThan = None,
    effects: Effects = False,
    limit: Most = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop runs: at once when they wait, at their next step when they work. Their cards are Failed with the reason.

    Several RUNs, or --all with what chooses them, such as --waiting --function NAME --older-than 30d.
    """
    from hermes.bulk import cancel_each
    from hermes.cli import run_bulk
    from hermes.model.run import RunState
    from hermes.operations import find_run

    choice = Choice(
        state=state,
        waiting=waiting,
        failed=False,
        parked=False,
        stuck=stuck,
        unknown_function=unknown_function,
        poll=poll,
        card=card,
        function=function,
        error=error,
        since=since,
        older_than=older_than,
        effects=effects,
    )
    run_bulk.check(run, choice, every=every, limit=limit)
    with looking_app(ctx) as hermes:
        if run and len(run) == 1 and not dry_run:
            _cancel_one(hermes, find_run(hermes, run[0]), reason, json)
            return
        live = (RunState.ready, RunState.waiting, RunState.running)
        chosen = run_bulk.chosen(hermes, run, choice, live, limit)
        if run_bulk.agreed(hermes, "cancel", chosen, ask=every and not yes and not dry_run, json=json):
            changes = cancel_each(hermes, chosen, reason=reason, dry_run=dry_run)
            run_bulk.do(hermes, "cancel", changes, dry_run=dry_run, json=json)


@app.command("prune")
def prune(
    ctx: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="In place of `runs:` and `timeline:` of hermes.yaml: 30d."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove what is old, as `retention:` in hermes.yaml says: of runs that are over their steps, timelines, arguments
    and long results. Keys and endings stay, so that asking for a key again still starts nothing."""
    from hermes.cli import run_prune

    with looking_app(ctx) as hermes:
        run_prune.prune(hermes, older_than, dry_run=dry_run, yes=yes, json=json)


def _resume_one(hermes: App, found: Run, decision: Any, result: str | None, json: bool) -> None:
    from hermes.cli.output import tell
    from hermes.model.run import RunState
    from hermes.operations import resume_run
    from hermes.ports.runs import Resumed

    match resume_run(hermes, found.id, decision=decision, result_json=result, by="cli"):
        case Resumed.resumed:
            line = f"Run {found.id} goes on{_once_claimed(found)}: a running `hermes-poll up` does it."
            tell(json, line, run=found.id, asked="resume", changed=True)
        case Resumed.not_stopped if found.state in (RunState.succeeded, RunState.refused):
            raise CommandError(f"Run {found.id} has {found.state}: there is nothing to resume.", Code.failed)
        case Resumed.not_stopped:
            line = f"Run {found.id} is {found.state} already: nothing was changed."
            tell(json, line, run=found.id, asked="resume", changed=False)
        case Resumed.needs_decision:
            raise CommandError(_in_doubt(hermes, found), Code.usage)
        case Resumed.forgotten:
            raise CommandError(
                f"Run {found.id} cannot go on: its steps are no longer kept (`retention: failed` of hermes.yaml), and "
                "what is done would be done again. Start it anew under another key.",
                Code.failed,
            )
        case Resumed.unknown_run:
            raise CommandError(f"Run {found.id} is gone.", Code.not_found)


def _once_claimed(run: Run) -> str:
    return " once its card is claimed again" if run.kind.value == "card" else ""


def _cancel_one(hermes: App, found: Run, reason: str, json: bool) -> None:
    from hermes.cli.output import tell
    from hermes.model.run import RunState
    from hermes.operations import cancel_run

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


def _story_json(hermes: App, told: RunStory) -> dict[str, Any]:
    from hermes.cli.output import as_json

    shown: dict[str, Any] = hermes.redactor.value(as_json(told))
    return shown
