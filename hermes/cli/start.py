"""`start`: a durable function as a run under a key, from here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError
from hermes.cli.payload import json_given

if TYPE_CHECKING:
    from hermes.model.json import JSON


def start(
    ctx: typer.Context,
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="Its name, such as `team_tasks.watch`.")],
    key: Annotated[str, typer.Option("--key", help="What the run is about: the same key is the same run.")],
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=JSON", help="One argument; may be given again.")
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="In place of that: all of them as an object.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Not before then: ISO 8601; UTC without an offset.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace")] = "default",
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Start a run; a running `up` does it. A key that has a run already starts nothing."""
    from hermes.cli.output import tell
    from hermes.durable.registry import load_functions
    from hermes.operations import NotFound
    from hermes.starting import NotAKey, UnknownFunction, near_functions, start
    from hermes.validated import NotFitting

    given, due_at = _arguments(arg or [], args), _instant(at)
    with looking_app(ctx) as hermes:
        load_functions(hermes.configuration.functions, hermes.configuration.folder)
        try:
            done = start(hermes, function, key, given, namespace=namespace, due_at=due_at)
        except UnknownFunction as error:
            near = near_functions(function)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise NotFound(f"{error} in the modules of `functions:`.{hint}") from None
        except (NotFitting, NotAKey) as error:
            raise CommandError(f"{error}", Code.usage) from None
    run = done.run
    line = (
        f"Run {run.id} is started: a running `hermes-poll up` does it."
        if done.created
        else f"The key has a run already: {run.id}, which is {run.state}. Nothing was started."
    )
    tell(json, line, run=run.id, key=key, state=run.state, created=done.created)


def _arguments(each: list[str], whole: str | None) -> dict[str, JSON]:
    if whole is not None and each:
        raise typer.BadParameter("say --arg or --args, not both")
    if whole is not None:
        found = json_given("--args", whole)
        if not isinstance(found, dict):
            raise typer.BadParameter("--args is an object: one value by the name of each parameter")
        return found
    found = {}
    for pair in each:
        name, equals, text = pair.partition("=")
        if not equals or not name or name in found:
            raise typer.BadParameter(f"--arg is NAME=JSON, each name once: {pair[:60]!r}")
        found[name] = json_given(f"--arg {name}", text)
    return found


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"--at is a time such as 2027-03-01T09:00:00Z: {text[:60]!r}") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
