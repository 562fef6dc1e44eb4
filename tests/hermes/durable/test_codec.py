"""What passes between a function and its commands is kept as JSON, by annotation, or refused before any effect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from hermes.durable import Refused, Snooze, command, function
from hermes.durable.codec import Arguments, Codec, resolved_hints, without_endings
from hermes.durable.failure import NotStorable
from hermes.errors import ConfigError
from hermes.model.run import RunState
from hermes.testing.engine import EngineHarness

MB = 1024 * 1024


class Colour(Enum):
    red = "red"


@dataclass
class Point:
    x: int
    y: float


class Order(BaseModel):
    id: str
    lines: list[Point]
    due: datetime | None = None


VALUES: list[tuple[object, object]] = [
    (int, 2**70),
    (float, 1.5),
    (float, float("inf")),
    (str, "p\u00e1gina \U0001f9d1\u200d\U0001f680 \x00"),
    (bytes, b"\x00\xff\xfe"),
    (bool, True),
    (None, None),
    (Decimal, Decimal("0.10")),
    (datetime, datetime(2026, 1, 1, 2, 30, tzinfo=UTC)),
    (date, date(2026, 1, 1)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (UUID, UUID(int=5)),
    (Path, Path("/x/y")),
    (Colour, Colour.red),
    (Literal["a", 1], 1),
    (dict[int, tuple[str, ...]], {1: ("a", "b")}),
    (set[int], {1, 2}),
    (Point, Point(1, 2.0)),
    (Order, Order(id="o", lines=[Point(1, 1.0)], due=datetime(2026, 1, 1, tzinfo=UTC))),
    (list[Order | Point | None], [None, Point(1, 2.0)]),
    (Any, {"a": [1, None]}),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES)
def test_a_value_comes_back_as_it_was(annotation: object, value: object) -> None:
    codec = Codec(annotation, "it")
    assert codec.load(codec.dump(value, MB)) == value


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Any, object(), "cannot be kept as JSON"),
        (Any, {"a": {1, object()}}, "cannot be kept as JSON"),
        (int, "many", "does not fit its annotation"),
        (Order, {"id": "o"}, "lines: Field required"),
        (str, "\ud800", "JSON|annotation"),
        (str, "x" * MB, "1,048,578 bytes as JSON; the limit is 1,048,576"),
    ],
)
def test_what_cannot_be_kept_is_said_plainly(annotation: object, value: object, why: str) -> None:
    with pytest.raises(NotStorable, match=why):
        Codec(annotation, "it").dump(value, MB)


def test_a_type_that_can_never_be_kept_is_refused_when_functions_are_loaded() -> None:
    class Socket:
        pass

    def body(one: Socket) -> None: ...

    with pytest.raises(NotStorable, match="cannot be kept as JSON"):
        Arguments(body, {"one": Socket}, "body")
    with pytest.raises(NotStorable, match="cannot be resolved"):
        resolved_hints(body, "body")


def test_arguments_are_kept_by_name_with_their_defaults() -> None:
    def body(a: int, /, b: str = "x", *rest: int, c: datetime | None = None, **more: float) -> None: ...

    arguments = Arguments(body, resolved_hints(body, "body"), "body")
    text = arguments.dump((1, "y", 2, 3), {"z": 1.5}, MB)
    assert text == '{"a":1,"b":"y","rest":[2,3],"c":null,"more":{"z":1.5}}'
    assert arguments.load(text) == ((1, "y", 2, 3), {"c": None, "z": 1.5})
    assert arguments.load('{"a": 1}') == ((1, "x"), {"c": None})
    with pytest.raises(NotStorable, match="gone: Extra inputs"):
        arguments.load('{"a": 1, "gone": 2}')
    with pytest.raises(TypeError, match="missing a required argument"):
        arguments.dump((), {}, MB)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=5))
def test_any_json_is_kept(value: dict[str, Any]) -> None:
    codec = Codec(dict[str, Any], "it")
    assert codec.load(codec.dump(value, MB)) == value


@pytest.mark.parametrize(
    ("annotation", "kept"),
    [
        (str | Refused | Snooze, str),
        (Refused, None),
        (Refused | Snooze, None),
        (int | None, int | None),
        (str | int | Snooze, str | int),
    ],
)
def test_endings_are_not_part_of_a_result(annotation: object, kept: object) -> None:
    assert without_endings(annotation) == kept


def test_arguments_that_cannot_be_kept_fail_before_the_effect(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def send(what: Any) -> None:
        outside.happened("send")

    @function
    async def job() -> str:
        try:
            await send(object())
        except NotStorable as exc:
            return str(exc)
        return "sent"

    assert "the arguments of" in str(harness.run(job).result)
    assert outside.count("send") == 0


@pytest.mark.parametrize("wrong", [object(), "x" * (MB + 1)])
def test_a_result_that_cannot_be_kept_is_final_because_it_has_happened(harness: EngineHarness, wrong: object) -> None:
    outside = harness.outside

    @command
    def send() -> Any:
        outside.happened("send")
        return wrong

    @function
    async def job() -> None:
        await send()

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 3}))
    assert run.state is RunState.failed
    assert run.error is not None
    assert run.error.short_kind == "NotStorable"
    assert outside.count("send") == 1


def test_a_command_gets_what_was_recorded_not_what_was_changed_since(harness: EngineHarness) -> None:
    @command
    def send(lines: list[int]) -> list[int]:
        return lines

    @function
    async def job() -> list[int]:
        lines = [1]
        asked = send(lines)
        lines.append(2)
        return await asked

    assert harness.run(job).result == [1]


def test_decorators_refuse_nonsense() -> None:
    with pytest.raises(TypeError, match="async def"):
        function(lambda: None)  # type: ignore[arg-type, return-value]
    for wrong, why in (
        ({"retries": -1}, "retries"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"effect": "checkable"}, "check="),
        ({"check": lambda key: None}, "check="),
        ({"effect": "maybe"}, "maybe"),
    ):
        with pytest.raises(ValueError, match=why):
            command(**wrong)(lambda: None)  # type: ignore[call-overload]


def test_one_name_stands_for_one_thing() -> None:
    @command(name="test.codec.shared")
    def one() -> None: ...

    def two() -> None: ...

    two.__module__ = "another.module"
    with pytest.raises(ConfigError, match="is defined in"):
        command(name="test.codec.shared")(two)
