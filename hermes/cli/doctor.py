"""`doctor`: looks at everything that can be wrong with an installation, and says the cure."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes.cli.context import settings
from hermes.cli.exits import Code


def doctor(
    ctx: typer.Context,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no board.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Examine configuration, database, boards, polls, cards and runs. Exits with 1 when something must be put right."""
    from hermes.cli.output import STATES, console, print_json, safe
    from hermes.doctor import Level, examine

    chosen = settings(ctx)
    found = []
    out = console()
    for check in examine(chosen.config, log_level=chosen.log_level or "error", offline=offline):
        found.append(check)
        if json:
            continue
        out.print(f"{check.level.value:5}", style=STATES[check.level.value], end="")
        out.print(f"{safe(check.about)}: {safe(check.what)}")
        if check.cure:
            out.print(f"     -> {safe(check.cure)}")
    worst = max((check.level for check in found), key=list(Level).index, default=Level.ok)
    if json:
        print_json({"ok": worst is not Level.fail, "worst": worst, "checks": found})
    if worst is Level.fail:
        raise typer.Exit(Code.failed)
