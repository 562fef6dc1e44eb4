"""YAML text to a tree of nodes that know where they stand. Leaves meaning to the models.

The tree is built from ruamel's events instead of its constructors: no tag is ever acted on, every duplicate key is
reported, nothing recurses, and each limit is checked before the work is done. Scalars follow the YAML 1.2 core schema
(`NO`, `on` and `12:30` are text), keys are always text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from hermes.config.problems import ConfigProblems, Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
MAX_ALIASES = 100
MAX_NODES = 20_000
"""After aliases are followed; about two seconds of parsing and far more than anybody writes by hand."""


@dataclass(slots=True)
class Scalar:
    line: int
    column: int
    text: str
    plain: bool
    """Written without quotes: only then can it be anything but text."""
    style: str | None = None
    interpolated: bool = False
    """Holds something that came from the environment: its value is not shown."""
    literal_default: bool = False
    """What it holds came from the `:-default` in the file."""
    whole: bool = False
    """Is one reference to the environment and nothing else: may be a number or a truth value, quoted or not (inside
    `{...}` a reference must be quoted)."""
    lacking: bool = False
    """Refers to something that the environment does not have."""
    resolved: str | None = None
    """Text after interpolation."""


@dataclass(slots=True)
class Sequence:
    line: int
    column: int
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    line: int
    column: int
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Scalar] = field(default_factory=dict)


Node: TypeAlias = "Scalar | Sequence | Mapping"

_OPENING_RUN = re.compile(rf"(?:[\[{{]\s*){{{MAX_DEPTH + 1}}}")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class _Stop(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def parse_yaml(raw: bytes, shown_as: str) -> tuple[Node, list[Problem]]:
    """The tree of a file, and mistakes in it that did not keep it from being read (duplicate keys). Raises
    ConfigProblems when there is no tree; `shown_as` is the file's name in them."""
    if len(raw) > MAX_BYTES:
        raise ConfigProblems([Problem(shown_as, 0, 0, f"is larger than {MAX_BYTES:,} bytes")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        column = exc.start - raw.rfind(b"\n", 0, exc.start)
        raise ConfigProblems([Problem(shown_as, line, column, "is not UTF-8 text")]) from exc
    run = _OPENING_RUN.search(text)
    if run:
        # ruamel looks ahead in a way that makes such runs quadratic: say no before it starts.
        raise ConfigProblems([_at_offset(shown_as, text, run.start(), f"is nested deeper than {MAX_DEPTH} levels")])
    problems: list[Problem] = []
    try:
        return _Composer(shown_as, problems).compose(text), problems
    except _Stop as stop:
        problems.append(stop.problem)
    except YAMLError as exc:
        problems.append(_syntax_problem(exc, shown_as, text))
    except (RecursionError, ValueError, IndexError, AttributeError) as exc:
        # ruamel leaks these for some malformed input.
        problems.append(Problem(shown_as, 0, 0, f"is not valid YAML ({type(exc).__name__})"))
    raise ConfigProblems(problems)


def _at_offset(shown_as: str, text: str, offset: int, what: str) -> Problem:
    line = text.count("\n", 0, offset) + 1
    return Problem(shown_as, line, offset - (text.rfind("\n", 0, offset) + 1) + 1, what)


def _syntax_problem(exc: YAMLError, shown_as: str, text: str) -> Problem:
    what = "is not valid YAML: "
    if isinstance(exc, MarkedYAMLError):
        mark = exc.problem_mark or exc.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if mark and text[max(0, mark.index - 1) : mark.index + 1] == "${":
            return Problem(shown_as, line, column - 1, what + 'inside {...} a reference must be quoted: "${NAME}"')
        return Problem(shown_as, line, column, what + _plainly(exc.problem or exc.context or ""))
    position = getattr(exc, "position", None)
    if isinstance(position, int) and position < len(text):
        return _at_offset(shown_as, text, position, f"{what}character U+{ord(text[position]):04X} is not allowed")
    return Problem(shown_as, 0, 0, what + str(exc).splitlines()[0])


def _plainly(problem: str) -> str:
    if "'\\t'" in problem or "\\t" in problem:
        return "a tab may not indent a line: use spaces"
    return problem.replace("mapping values are not allowed here", "a `: ` stands where no key may be (quote the text?)")


@dataclass(slots=True)
class _Frame:
    node: Sequence | Mapping
    anchor: str | None
    key: Scalar | None = None
    weight: int = 1


class _Composer:
    def __init__(self, shown_as: str, problems: list[Problem]) -> None:
        self._file = shown_as
        self._problems = problems
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._aliases = 0
        self._root: Node | None = None
        self._total = 0

    def compose(self, text: str) -> Node:
        for event in _events(text):
            self._take(event)
        return self._root or self._stop(1, 1, "is empty")

    def _take(self, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, DocumentStartEvent):
            if self._root is not None:
                self._stop(line, column, "holds a second document (`---`): one file, one document")
            if event.version is not None and tuple(event.version) != (1, 2):
                self._stop(line, column, "asks for another YAML version: 1.2 is used")
        elif isinstance(event, AliasEvent):
            self._alias(event.anchor, line, column)
        elif isinstance(event, ScalarEvent):
            self._refuse_tag(event, line, column)
            scalar = Scalar(line, column, event.value, plain=event.style is None, style=event.style)
            frame = self._stack[-1] if self._stack else None
            if frame is not None and isinstance(frame.node, Mapping) and frame.key is None:
                self._key(frame, scalar)
                if event.anchor:
                    self._anchors[event.anchor] = (scalar, 1)
            else:
                self._add(scalar, 1, event.anchor)
        elif isinstance(event, (SequenceStartEvent, MappingStartEvent)):
            self._refuse_tag(event, line, column)
            if len(self._stack) >= MAX_DEPTH:
                self._stop(line, column, f"is nested deeper than {MAX_DEPTH} levels")
            if self._stack and isinstance(self._stack[-1].node, Mapping) and self._stack[-1].key is None:
                self._stop(line, column, "a key must be text")
            kind = Sequence if isinstance(event, SequenceStartEvent) else Mapping
            if event.anchor:
                self._anchors[event.anchor] = None
            self._stack.append(_Frame(kind(line, column), event.anchor))
        elif isinstance(event, (SequenceEndEvent, MappingEndEvent)):
            frame = self._stack.pop()
            self._add(frame.node, frame.weight, frame.anchor)

    def _key(self, frame: _Frame, key: Scalar) -> None:
        assert isinstance(frame.node, Mapping)  # noqa: S101  (narrowing)
        if key.text == "<<" and key.plain:
            self._stop(key.line, key.column, "merge keys (`<<`) are not supported: write the keys out")
        if key.text in frame.node.keys:
            first = frame.node.keys[key.text]
            self._say(key.line, key.column, f"duplicate key `{key.text}` (first at line {first.line})")
        self._count(key.line, key.column, 1)
        frame.key = key

    def _add(self, node: Node, weight: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (node, weight)
        if isinstance(node, Scalar):
            self._count(node.line, node.column, weight)
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        frame.weight += weight
        if isinstance(frame.node, Mapping):
            key, frame.key = frame.key, None
            assert key is not None  # noqa: S101  (narrowing: a value always follows its key)
            frame.node.items.setdefault(key.text, node)
            frame.node.keys.setdefault(key.text, key)
        else:
            frame.node.items.append(node)

    def _alias(self, name: str, line: int, column: int) -> None:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            self._stop(line, column, f"uses more than {MAX_ALIASES} aliases")
        node, weight = self._anchors.get(name) or self._stop(
            line, column, f"alias `*{name}` has no anchor before it, or stands inside it"
        )
        frame = self._stack[-1] if self._stack else None
        if frame is not None and isinstance(frame.node, Mapping) and frame.key is None:
            self._stop(line, column, "an alias may not be a key")
        self._count(line, column, weight)
        self._add(node, weight, None)

    def _count(self, line: int, column: int, weight: int) -> None:
        self._total += weight
        if self._total > MAX_NODES:
            self._stop(line, column, f"holds more than {MAX_NODES:,} values (aliases followed)")

    def _refuse_tag(self, event: Any, line: int, column: int) -> None:
        tag = event.tag
        if tag is not None:
            self._stop(line, column, f"tag `{str(tag)[:60]}` is not allowed")

    def _say(self, line: int, column: int, what: str) -> None:
        self._problems.append(Problem(self._file, line, column, what))

    def _stop(self, line: int, column: int, what: str) -> NoReturn:
        raise _Stop(Problem(self._file, line, column, what))


def _events(text: str) -> Iterator[Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    yield from yaml.parse(text)


def plain_value(text: str) -> Any:
    """What an unquoted scalar means in the core schema of YAML 1.2. Raises ValueError for numbers nobody means."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        if len(text) > 18:
            raise ValueError("this number is too large (quote it if it is text)")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("infinity and not-a-number are not allowed")
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError("this number is too large (quote it if it is text)")
        return number
    return text
