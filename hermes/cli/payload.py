"""JSON that people give on the command line: as text, from a file, or from stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hermes.model.json import JSON


def json_given(what: str, text: str) -> JSON:
    """Raises BadParameter, naming `what`."""
    from hermes.strict_json import NotJson, read_json

    try:
        return read_json(text)
    except NotJson as error:
        raise typer.BadParameter(f"{what} is no JSON that can be used: {error}") from None


def text_of(path: str) -> str:
    """`-` is stdin."""
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not UTF-8") from None
