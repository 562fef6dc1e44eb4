"""`demo`: the main job, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    data: Annotated[Path, typer.Option("--data", help="Folder for everything the demo makes.")] = Path("demo-data"),
    port: Annotated[
        int, typer.Option("--port", help="Of the board's page; the demo needs this one and the next.")
    ] = 8450,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier demo left in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document at the end.")] = False,
) -> None:
    """Show the main job on a local board, without any account: real processes, a service that fails, half a minute."""
    from hermes.demo import run_demo

    raise typer.Exit(run_demo(data, port=port, fresh=fresh, as_json=json))
