"""The command line, `hermes-poll`: one file a command or group of commands, and the table in commands.py.

Nothing heavy is imported before a command runs: `hermes-poll --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Exits with a code of exits.py."""
    from hermes.cli.commands import build

    build()(args=None if args is None else list(args), prog_name="hermes-poll")
