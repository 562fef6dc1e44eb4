"""`board`: what a board lacks, its claims, taking on what others left, and serving the local one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.cli import board_faults
from hermes.cli.context import board_app, looking_app, settings
from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.claim.adopt import Adopted
    from hermes.operations import Adoption

app = typer.Typer(no_args_is_help=True, help="Prepare a board, see its claims, serve the local one.")
app.add_typer(board_faults.app, name="faults")

Which = Annotated[
    str | None, typer.Argument(metavar="[BOARD]", help="Its name in hermes.yaml; left out where there is only one.")
]
Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it.")]


@app.command("init")
def init_board(
    ctx: typer.Context,
    board: Which = None,
    create: Annotated[bool, typer.Option("--create", help="Make a new board, under --parent.")] = False,
    parent: Annotated[str | None, typer.Option("--parent", metavar="PAGE", help="Link or id of a page.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Of the new board.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Show the columns and options a board lacks, and add them once you agree."""
    from hermes.cli.output import print_json, safe_lines, say
    from hermes.operations import board_named

    if create and not parent:
        raise typer.BadParameter("--create needs --parent: the page below which the board is made")
    with board_app(ctx) as hermes:
        name = board_named(hermes, board)
        if create:
            _create(hermes, name, parent or "", title or name, ask=not yes, dry_run=dry_run, json=json)
            return
        plan = hermes.plan_board(name)
        if not json:
            say(safe_lines(plan.render()))
        done = False
        left = plan
        if plan.additions and not dry_run and _agreed("Add these?", yes, json):
            left = hermes.apply_board_plan(name, plan).left
            done = True
            if not json:
                say("Added." if left.complete else safe_lines(left.render()))
        if json:
            print_json(
                {
                    "board": name,
                    "data_source": plan.located.data_source_id,
                    "additions": [str(addition) for addition in plan.additions],
                    "by_hand": list(left.by_hand),
                    "applied": done,
                    "complete": left.complete,
                }
            )
        if done and not left.complete:
            raise typer.Exit(Code.failed)


@app.command("adopt")
def adopt_board(
    ctx: typer.Context, board: Which = None, yes: Yes = False, dry_run: DryRun = False, json: Json = False
) -> None:
    """Show claims that are not this installation's and, once you agree, give those cards back to Todo.

    Say yes only when the installation that made them is stopped: what it still does it would do twice.
    """
    from hermes.cli.output import say
    from hermes.operations import adopt_board, board_named, look_at_foreign_claims

    with board_app(ctx) as hermes:
        name = board_named(hermes, board)
        found = look_at_foreign_claims(hermes, name)
        if not json:
            _show_adoption(hermes, found)
        if not found.claims and not found.stopped and not found.disabled:
            _print_adoption(found, None) if json else say("There is nothing to take on.")
            return
        question = "Is every installation that made these claims stopped, and shall these cards go back to Todo?"
        if not found.claims:
            question = "Shall the board be claimed again?"
        if dry_run or not _agreed(question, yes, json):
            _print_adoption(found, None) if json else say("Nothing was changed.")
            return
        done = adopt_board(hermes, found)
        if json:
            _print_adoption(found, done)
        else:
            say(f"{len(done.given_back)} card(s) are free again.")
            for card_id, why in done.left:
                say(f"  not {card_id}: {why}")
            say(
                f"The board {name} is claimed again by a running `hermes-poll up`."
                if done.complete
                else "The board stays stopped until all are free: run it again."
            )
    if not done.complete:
        raise typer.Exit(Code.failed)


@app.command("show")
def show_board(
    ctx: typer.Context,
    board: Which = None,
    every: Annotated[bool, typer.Option("--all", help="Also cards that are done with.")] = False,
    json: Json = False,
) -> None:
    """Cards that wait for us or are claimed by us, how long each claim still holds, and why."""
    from hermes.cli.output import STATES, cut, near, print_json, say, table, warn
    from hermes.operations import board_named, claims

    with looking_app(ctx, needs_database=False) as hermes:
        if board is not None:
            board_named(hermes, board)
        if not hermes.database_exists():
            print_json({"cards": []}) if json else say("No cards yet: no process has looked at a board.")
            return
        found, now = claims(hermes, board=board, every=every)
        if json:
            print_json({"cards": found, "now": now})
            return
        with hermes.store.read() as uow:
            for row in uow.survey.boards():
                if row.stopped_reason:
                    warn(f"{row.name or row.board}: nothing is claimed: {hermes.redactor.text(row.stopped_reason)}")
                if row.problem:
                    warn(f"{row.name or row.board}: {hermes.redactor.text(row.problem)}")
        if not found:
            say("No card waits and none is claimed." + ("" if every else " (--all shows those that are done with.)"))
            return
        table(
            ("CARD", "STATE", "HOLDS", "GENERATION", "RUN", "POLL", "NOTE"),
            [
                (
                    cut(card.title or card.card_id, 50),
                    card.state.value,
                    near(card.board_expires_at, now),
                    card.generation,
                    card.run_id,
                    card.poll_id,
                    cut(hermes.redactor.text(card.note or ""), 100),
                )
                for card in found
            ],
            styles=STATES,
        )


@app.command("serve")
def serve_board(
    ctx: typer.Context,
    connection: Annotated[
        str | None, typer.Argument(metavar="[CONNECTION]", help="A `type: local` connection of hermes.yaml.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="In place of the connection's.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="The board's file; then no configuration is needed.")
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option("--faults", metavar="FILE", help="Faults switched on from the start (docs/faults.md)."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the faults, in place of the file's.")] = None,
) -> None:
    """Serve a local board by itself, until SIGTERM or Ctrl+C. `up` does it too."""
    from hermes.app import App, port_answers, serve_board
    from hermes.cli.output import say

    wanted = board_faults.read_faults(faults, seed) if faults is not None else []
    if data is None:
        hermes, _ = App.look(settings(ctx).config)
        try:
            known = hermes.local_connections()
            if connection is None and len(known) == 1:
                connection = next(iter(known))
            if connection not in known:
                names = ", ".join(known) or "none"
                raise CommandError(
                    f"Say which connection of `type: local` to serve (there are: {names}).", Code.not_found
                )
            port = port or known[connection].port
            data = hermes.local_board_file(connection)
        finally:
            hermes.close()
    port = port or 8450
    if port_answers(port):
        raise CommandError(f"Something answers at port {port} already: end it, or say another --port.", Code.failed)
    say(f"The board {data} is served at http://127.0.0.1:{port}/ until Ctrl+C.")
    try:
        serve_board(data, port, faults=wanted)
    except ValueError as error:
        raise CommandError(f"{faults or data}: {error}", Code.usage) from error


def _agreed(question: str, yes: bool, json: bool) -> bool:
    if yes:
        return True
    if json:
        raise typer.BadParameter("--json asks nothing: say --yes or --dry-run")
    return typer.confirm(question, default=False, err=True)


def _create(hermes: App, name: str, parent: str, title: str, *, ask: bool, dry_run: bool, json: bool) -> None:
    from hermes.cli.output import print_json, say

    if not json:
        say(f"A board {title!r} with every column that `boards: {name}:` names, below the page {parent}.")
    if dry_run or not _agreed("Make it?", not ask, json):
        say("Nothing was changed.")
        return
    made = hermes.create_board(name, title=title, parent_page=parent)
    at = made.located
    if json:
        data = {"board": name, "created": made.created, "data_source": at.data_source_id, "url": at.url}
        print_json(data)
        return
    say(
        f"{'Made' if made.created else 'It is there already'}: {at.url or at.data_source_id}",
        f"Put this into hermes.yaml as `boards: {name}: board:` {at.data_source_id}",
    )


def _show_adoption(hermes: App, found: Adoption) -> None:
    from hermes.cli.output import instant, say, table

    if found.stopped:
        say(f"Claiming on {found.board} is stopped: {hermes.redactor.text(found.stopped)}")
    if found.claims:
        table(
            ("CARD", "CLAIMED BY", "RUN", "EXPIRES", ""),
            [
                (
                    claim.card.title or claim.card.id,
                    claim.card.claimed_by,
                    claim.card.run_id,
                    instant(claim.card.claim_expires_at),
                    "not expired: may still be worked on" if claim.live else "expired",
                )
                for claim in found.claims
            ],
        )
    if found.disabled:
        say(f"Polls that were disabled by it and will be resumed: {', '.join(found.disabled)}")


def _print_adoption(found: Adoption, done: Adopted | None) -> None:
    from hermes.cli.output import print_json

    print_json(
        {
            "board": found.board,
            "stopped": found.stopped,
            "claims": [
                {
                    "card": claim.card.id,
                    "title": claim.card.title,
                    "claimed_by": claim.card.claimed_by,
                    "run": claim.card.run_id,
                    "expires_at": claim.card.claim_expires_at,
                    "live": claim.live,
                }
                for claim in found.claims
            ],
            "disabled_polls": found.disabled,
            "applied": done is not None,
            "given_back": done.given_back if done else [],
            "left": [{"card": card, "why": why} for card, why in done.left] if done else [],
        }
    )
