"""`db`: the database's tables."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes.cli.context import settings

app = typer.Typer(no_args_is_help=True, help="Bring the database to this version's tables.")


@app.callback()
def _group() -> None:
    """Keeps `upgrade` a command of its own while it is the only one."""


@app.command("upgrade")
def upgrade(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which migrations would be applied.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Only print the statements: tried, then rolled back.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Apply the migrations that are missing, all or none. `up` and `run-once` do it at their start."""
    from hermes.app import App
    from hermes.cli.output import print_json, safe_lines, say

    chosen = settings(ctx)
    hermes, _ = App.look(chosen.config)
    try:
        hermes.configure_logs(level=chosen.log_level or "warning")
        before = hermes.database_version()
        statements = hermes.upgrade_statements() if sql else []
        if not sql and not dry_run:
            hermes.upgrade()
        done = not sql and not dry_run
        if json:
            data = {"database": hermes.shown_database(), "from": before.at, "migrations": list(before.pending)}
            print_json({**data, "applied": done, "statements": statements})
        elif sql:
            say(*map(safe_lines, statements))
        elif not before.pending:
            say(f"{hermes.shown_database()} is up to date (version {before.at}).")
        else:
            say(
                f"{'Applied' if done else 'Would apply'} to {hermes.shown_database()}:",
                *(f"  {it}" for it in before.pending),
            )
    finally:
        hermes.close()
