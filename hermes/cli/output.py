"""What commands print: tables and lines for people, JSON for programs. Text from outside cannot steer a terminal."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
"""Whole sequences that move a cursor, colour, name a window or fill a clipboard."""
_JOINERS = frozenset("\u200c\u200d")
"""Invisible, and needed inside words and emoji."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def safe(text: object) -> str:
    """On one line, without escapes, control, direction and hidden characters."""
    return " ".join(_strip(str(text), keep="\n\r\t").split())


def safe_lines(text: object) -> str:
    """The same, keeping its lines and their indentation."""
    return "\n".join(_strip(line).rstrip() for line in str(text).expandtabs(4).split("\n"))


def _strip(text: str, keep: str = "") -> str:
    def kept(letter: str) -> str:
        if letter in keep:
            return " "
        return letter if letter in _JOINERS or unicodedata.category(letter) not in _UNSEEN else ""

    return text if text.isascii() and text.isprintable() else "".join(map(kept, _ESCAPE.sub("", text)))


def cut(text: object, length: int) -> str:
    shown = safe(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # What is piped is for another program: no line is broken to fit a screen that is not there.
    width = None if stream.isatty() else 10_000
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False, soft_wrap=not stream.isatty())


def say(*lines: object) -> None:
    """Our own words, with what was put into them made safe."""
    out = console()
    for line in lines:
        out.print(safe_lines(line))


def tell(json: bool, line: str, **data: object) -> None:
    """What a command did: a sentence, or with `--json` the same as one document."""
    if json:
        print_json(data)
    else:
        say(line)


def warn(*lines: object) -> None:
    out = console(stderr=True)
    for line in lines:
        out.print(safe_lines(line), style="yellow")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, styles: Mapping[str, str] | None = None) -> None:
    """Cells are text, made safe; `styles` by a cell's whole text (a state, a health)."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        last = index == len(columns) - 1
        # Names and states are needed whole; the last column, which explains, takes the lines it needs.
        made.add_column(column, overflow="fold", no_wrap=not last, min_width=20 if last else len(column))
    for row in rows:
        cells = ["" if cell is None else safe(cell) for cell in row]
        made.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in cells))
    out = console()
    with out.capture() as drawn:
        out.print(made)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines()))


STATES = {
    "ok": "green",
    "succeeded": "green",
    "done": "green",
    "running": "cyan",
    "claimed": "cyan",
    "waiting": "blue",
    "failing": "bold red",
    "failed": "bold red",
    "fail": "bold red",
    "disabled": "bold red",
    "parked": "bold yellow",
    "warn": "yellow",
    "refused": "yellow",
    "paused": "yellow",
    "cancelled": "dim",
    "off": "dim",
    "removed": "dim",
}
"""How words of state look."""


def print_json(data: object) -> None:
    """One document. Stable keys, ISO times in UTC, everything beyond ASCII escaped: no terminal obeys any of it."""
    sys.stdout.write(json.dumps(as_json(data), indent=2) + "\n")


def as_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, datetime):
        return instant(value, exact=True)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def instant(at: datetime | None, *, exact: bool = False) -> str:
    if at is None:
        return ""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds" if exact else "seconds")
    return text.replace("+00:00", "Z")


def near(at: datetime | None, now: datetime) -> str:
    """`in 12 s`, `3 m ago`: for lists."""
    if at is None:
        return ""
    seconds = (at - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
