"""docs/cli.md names every command that there is."""

from __future__ import annotations

from pathlib import Path

from hermes.cli.commands import COMMANDS, GROUPS

DOCS = Path(__file__).parents[3] / "docs" / "cli.md"


def test_every_command_stands_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    names = [name for name, _ in COMMANDS]
    names += [f"{group} {command.name}" for group, app in GROUPS for command in app.registered_commands]
    assert [name for name in names if f"`{name}" not in text] == []
