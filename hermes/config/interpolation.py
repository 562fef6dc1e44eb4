"""`${NAME}` and `${NAME:-default}` in parsed scalars, and `NAME_FILE` for secrets kept in files.

Interpolation comes after parsing, so a value can never change the structure of a file; what is put in is never read
again. `$${` stands for a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.config.yaml_file import Mapping as MappingNode
from hermes.config.yaml_file import Node, Scalar, Sequence

MAX_SECRET_BYTES = 65_536
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def interpolate(root: Node, environ: Mapping[str, str]) -> Iterator[tuple[Scalar, str]]:
    """Fills in `resolved` of every scalar that refers to the environment; yields what is wrong."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            waiting.extend(node.items.values())
        elif isinstance(node, Sequence):
            waiting.extend(node.items)
        elif "${" in node.text:
            yield from ((node, problem) for problem in _fill(node, environ))


def _fill(scalar: Scalar, environ: Mapping[str, str]) -> list[str]:
    problems: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, has_default, default = (match[1] or "").partition(":-")
        if match[1] is None or not _NAME.fullmatch(name):
            problems.append("expected ${NAME} or ${NAME:-default} ($${ for a literal ${)")
            return ""
        scalar.interpolated = True
        try:
            value = _look_up(name, environ)
        except ValueError as exc:
            problems.append(str(exc))
            return ""
        if value:
            return value
        if has_default:
            scalar.literal_default = bool(default)
            return default
        state = "is empty" if value == "" else "is not set"
        problems.append(f"environment variable {name} {state} (nor {name}_FILE); or give a default: ${{{name}:-...}}")
        return ""

    scalar.resolved = _REFERENCE.sub(replace, scalar.text)
    scalar.whole = scalar.interpolated and _REFERENCE.fullmatch(scalar.text) is not None
    scalar.lacking = bool(problems)
    return problems


def _look_up(name: str, environ: Mapping[str, str]) -> str | None:
    file = environ.get(f"{name}_FILE")
    if not file:
        return environ.get(name)
    if environ.get(name):
        raise ValueError(f"both {name} and {name}_FILE are set: keep one")
    try:
        with Path(file).open("rb") as stream:
            raw = stream.read(MAX_SECRET_BYTES + 1)
    except OSError as exc:
        raise ValueError(f"the file named by {name}_FILE cannot be read: {exc.strerror}") from exc
    if len(raw) > MAX_SECRET_BYTES:
        raise ValueError(f"the file named by {name}_FILE is larger than {MAX_SECRET_BYTES:,} bytes")
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as exc:
        raise ValueError(f"the file named by {name}_FILE is not UTF-8 text") from exc
