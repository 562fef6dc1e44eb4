"""`board`: what a board lacks, its claims, taking on what others left, and serving the local one."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Prepare a board, look at its claims, serve the local one.")


@app.callback()
def _group() -> None:
    """Keeps commands apart while there are few."""
