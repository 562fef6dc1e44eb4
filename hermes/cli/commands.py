"""The table of commands. Adding one is one file and one row."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hermes.cli import board, db, demo, doctor, events, fire, init, keys, polls, run_once, runs, start, up, validate
from hermes.cli.context import Globals
from hermes.cli.exits import HELP, Commands

COMMANDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("init", init.init),
    ("validate", validate.validate),
    ("up", up.up),
    ("run-once", run_once.run_once),
    ("start", start.start),
    ("fire", fire.fire),
    ("demo", demo.demo),
    ("doctor", doctor.doctor),
)
GROUPS: tuple[tuple[str, typer.Typer], ...] = (
    ("polls", polls.app),
    ("runs", runs.app),
    ("events", events.app),
    ("keys", keys.app),
    ("board", board.app),
    ("db", db.app),
)


def build() -> typer.Typer:
    # Locals in a traceback could show a secret.
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        epilog=HELP,
        help="Watches task boards, claims one card at a time, runs it once, and says what happened.",
    )
    app.callback()(_globals)
    for name, command in COMMANDS:
        app.command(name)(command)
    for name, group in GROUPS:
        app.add_typer(group, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"hermes-poll {version('hermes-poll')}")
        except PackageNotFoundError:
            typer.echo("hermes-poll (not installed)")
        raise typer.Exit


def _globals(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FOLDER", help="Where hermes.yaml is (HERMES_CONFIG, else ./config)."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option("--log-level", help="In place of `log: level:` in hermes.yaml (HERMES_LOG_LEVEL)."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = Globals(config, log_level)
