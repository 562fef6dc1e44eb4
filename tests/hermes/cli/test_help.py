from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hermes.cli.commands import COMMANDS, GROUPS, build

HEAVY = (
    "sqlalchemy",
    "sqlmodel",
    "pydantic",
    "alembic",
    "notion_client",
    "httpx",
    "uvicorn",
    "apprise",
    "ruamel",
    "structlog",
)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        "from hermes.cli.commands import build\n"
        "from typer.testing import CliRunner\n"
        "before = set(sys.modules)\n"
        "assert CliRunner().invoke(build(), ['--help']).exit_code == 0\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_help_names_every_command_and_the_exit_codes() -> None:
    said = CliRunner().invoke(build(), ["--help"]).stdout
    for name, _ in (*COMMANDS, *GROUPS):
        assert f"  {name} " in said
    assert "4 the database" in " ".join(said.split())


@pytest.mark.parametrize("name", [name for name, _ in (*COMMANDS, *GROUPS)])
def test_every_command_has_help(name) -> None:
    result = CliRunner().invoke(build(), [name, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_the_version() -> None:
    result = CliRunner().invoke(build(), ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("hermes-poll ")


def test_a_wrong_option_is_usage(place) -> None:
    assert place.call("polls", "list", "--nope").code == 2
    assert place.call("nope").code == 2
