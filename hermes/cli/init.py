"""`init`: a configuration that loads and runs, with comments, to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hermes.cli.exits import Code, CommandError


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to write it.")] = Path("config"),
    notion: Annotated[bool, typer.Option("--notion", help="For a Notion board, in place of a local one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Write a first configuration: a board on this machine, a poll, and a function that is given the cards."""
    from hermes.cli.output import print_json, say
    from hermes.skeleton import skeleton

    files = skeleton("notion" if notion else "local")
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        shown = "\n".join(f"  {folder / name}" for name in there)
        raise CommandError(
            f"These files are there already, and nothing was written (--force does):\n{shown}", Code.failed
        )
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if not json:
            say(f"wrote {path}")
    if json:
        print_json({"wrote": [str(folder / name) for name in files]})
        return
    option = "" if folder == Path("config") else f" --config {folder}"
    if notion:
        steps = [
            "put the token into NOTION_TOKEN and the board's link into NOTION_BOARD",
            f"hermes-poll{option} board init   shows the columns the board lacks, and adds them",
            f"hermes-poll{option} doctor       looks at everything once",
            f"hermes-poll{option} up",
        ]
    else:
        steps = [
            f"hermes-poll{option} up           and open the board it names; put a card into Todo",
            f"edit {folder / 'team_tasks.py'}: what a card really does",
        ]
    say("", "Next:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1)))
