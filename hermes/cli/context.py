"""What every command is given: where the configuration is, and the ways to open an App on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from hermes.app import App


@dataclass(frozen=True, slots=True)
class Globals:
    """Options before the command; None where they are left to the environment."""

    config: Path | None = None
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    config: Path
    log_level: str | None


def settings(ctx: typer.Context) -> Settings:
    """Options first, then HERMES_* of the environment, then defaults."""
    from hermes.cli.settings import ProcessSettings

    given = ctx.find_object(Globals) or Globals()
    environment = ProcessSettings()
    return Settings(given.config or environment.config, given.log_level or environment.log_level)


@contextmanager
def working_app(ctx: typer.Context) -> Iterator[App]:
    """For commands that work: every file must be right, and the database is brought up to date."""
    from hermes.app import App

    chosen = settings(ctx)
    app = App.load(chosen.config)
    try:
        app.configure_logs(level=chosen.log_level)
        app.upgrade()
        yield app
    finally:
        app.close()


@contextmanager
def board_app(ctx: typer.Context) -> Iterator[App]:
    """For commands that ask boards: the database is brought up to date, and local boards are served if nobody does."""
    from hermes.app import App
    from hermes.cli.output import warn

    chosen = settings(ctx)
    app, problems = App.look(chosen.config)
    try:
        app.configure_logs(level=chosen.log_level or "warning")
        for problem in problems:
            warn(problem)
        app.upgrade()
        stop_serving = app.serve_local_boards()
        try:
            yield app
        finally:
            stop_serving()
    finally:
        app.close()


@contextmanager
def looking_app(ctx: typer.Context, *, needs_database: bool = True) -> Iterator[App]:
    """For commands that look or change a row: no function of the operator is imported, a broken poll file is said and
    passed over, and the database is left at its version."""
    from hermes.app import App
    from hermes.cli.output import warn

    chosen = settings(ctx)
    app, problems = App.look(chosen.config)
    try:
        app.configure_logs(level=chosen.log_level or "warning")
        for problem in problems:
            warn(problem)
        if app.database_exists():
            app.require_current_database()
        elif needs_database:
            raise CommandError(
                f"There is no database yet ({app.shown_database()}): `hermes-poll up` makes it.", Code.database
            )
        yield app
    finally:
        app.close()
