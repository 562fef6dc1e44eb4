"""`validate`: everything that is wrong with the configuration, at once."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes.cli.context import settings
from hermes.cli.exits import Code


def validate(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
    online: Annotated[
        bool, typer.Option("--online/--offline", help="Also ask every board for its columns, which needs the network.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schemas of hermes.yaml and of a poll, for editors.")
    ] = False,
) -> None:
    """Check every file of the configuration and say all that is wrong, each with file:line:column."""
    from hermes.app import App, models, read_configuration
    from hermes.cli.output import print_json, safe_lines, say, warn
    from hermes.config.schemas import schema_for_hermes, schema_for_polls

    if schema:
        print_json({"hermes": schema_for_hermes(models()), "poll": schema_for_polls(models())})
        return
    reading = read_configuration(settings(ctx).config)
    boards: list[dict[str, object]] = []
    if online and reading.configuration is not None:
        from hermes.doctor import board_checks

        app = App(reading.configuration)
        try:
            app.configure_logs(level="error")
            app.upgrade()
            stop_serving = app.serve_local_boards()
            boards = [
                {"board": check.about, "level": check.level, "what": check.what, "cure": check.cure}
                for check in board_checks(app)
            ]
            stop_serving()
        finally:
            app.close()
    bad = bool(reading.problems) or any(board["level"] == "fail" for board in boards)
    if json:
        print_json(
            {
                "ok": not bad,
                "problems": [
                    {"file": it.file, "line": it.line, "column": it.column, "what": it.what} for it in reading.problems
                ],
                "polls": sorted(reading.configuration.polls) if reading.configuration else [],
                "boards": boards,
            }
        )
    else:
        for problem in reading.problems:
            warn(safe_lines(problem))
        for board in boards:
            say(f"{board['level']}: {board['board']}: {board['what']}" + (f" {board['cure']}" if board["cure"] else ""))
        if not bad and reading.configuration is not None:
            polls = len(reading.configuration.polls)
            said = f"{polls} poll{'' if polls == 1 else 's'}, {len(reading.configuration.boards)} board(s)"
            say(f"Nothing is wrong: {said}." + ("" if online else " (Boards were not asked: --online does.)"))
    if bad:
        raise typer.Exit(Code.usage)
