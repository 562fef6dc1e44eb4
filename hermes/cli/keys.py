"""`keys`: who may use the API, for what, in which namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.cli import choices
from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.model.api_key import ApiKey

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke keys of the API.")

Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is, such as `billing`.")]


@app.command("create")
def create(
    ctx: typer.Context,
    name: Name,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="|".join(choices.SCOPES),
            callback=choices.of(choices.SCOPES),
            help="What it opens; may be given again.",
        ),
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", help="Where it works; '*' for all, which its calls then name.")
    ] = "default",
    json: Json = False,
) -> None:
    """Make a key and show it: this once, nobody can show it again."""
    from hermes.cli.output import print_json, say
    from hermes.keys import NotMade, create_key
    from hermes.model.api_key import Scope

    with _app(ctx) as hermes:
        try:
            key, text = create_key(hermes, name, namespace=namespace, scopes=[Scope(each) for each in scope])
        except NotMade as error:
            raise CommandError(str(error), Code.usage) from None
    if json:
        print_json({**_shown(key), "key": text})
        return
    say(
        text,
        f"That is the key {key.name!r} for {', '.join(sorted(key.scopes))} in {_where(key)}. It is shown this once.",
    )


@app.command("list")
def list_keys(ctx: typer.Context, json: Json = False) -> None:
    """Every key, revoked ones too, by the part of it that is no secret."""
    from hermes.cli.output import instant, near, print_json, say, table
    from hermes.keys import keys

    with _app(ctx) as hermes:
        found, now = keys(hermes)
    if json:
        print_json({"keys": [_shown(key) for key in found]})
    elif not found:
        say("No keys yet: hermes-poll keys create NAME --scope fire")
    else:
        columns = ("NAME", "KEY", "NAMESPACE", "SCOPES", "USED", "REVOKED")
        rows = [
            (
                key.name,
                f"hp_{key.prefix}_...",
                key.namespace,
                " ".join(sorted(key.scopes)),
                near(key.last_used_at, now) or "never",
                instant(key.revoked_at),
            )
            for key in found
        ]
        table(columns, rows)


@app.command("revoke")
def revoke(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Nobody may use it any more, from the next request on. Its name is not given out again."""
    from hermes.cli.output import tell
    from hermes.keys import revoke_key

    with _app(ctx) as hermes:
        done = revoke_key(hermes, name)
    if done is None:
        raise CommandError(f"There is no key {name!r}.", Code.not_found)
    key, changed = done
    line = f"The key {key.name!r} is revoked." if changed else f"The key {key.name!r} was revoked already."
    tell(json, line, **_shown(key), changed=changed)


@contextmanager
def _app(ctx: typer.Context) -> Iterator[App]:
    """Keys may be made before the first `up`."""
    with looking_app(ctx, needs_database=False) as hermes:
        hermes.upgrade()
        yield hermes


def _shown(key: ApiKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "prefix": key.prefix,
        "namespace": key.namespace,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "last_used_at": key.last_used_at,
        "revoked_at": key.revoked_at,
    }


def _where(key: ApiKey) -> str:
    return "every namespace" if key.namespace == "*" else f"the namespace {key.namespace}"
