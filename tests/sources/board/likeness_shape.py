"""The shape of an answer: its keys and the types of its values, all the way down; and where two shapes part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return {str: "string", list: "array", dict: "object"}[type(value)]


def differences(
    recorded: Any, answered: Any, local_id: Callable[[str], str], path: str = "", *, lengths: bool = True
) -> Iterator[str]:
    """Each place where the shapes differ, in words. Elements with ids are compared with their own counterpart."""
    left, right = kind_of(recorded), kind_of(answered)
    if left != right:
        yield f"{path or '.'}: {left} became {right}"
    elif left == "object":
        yield from _objects(recorded, answered, local_id, path, lengths)
    elif left == "array":
        yield from _arrays(recorded, answered, local_id, path, lengths)


def _objects(recorded: Any, answered: Any, local_id: Callable[[str], str], path: str, lengths: bool) -> Iterator[str]:
    for key in recorded:
        if key not in answered:
            yield f"{path}.{key}: missing"
        else:
            yield from differences(recorded[key], answered[key], local_id, f"{path}.{key}", lengths=lengths)
    for key in answered:
        if key not in recorded:
            yield f"{path}.{key}: added"


def _arrays(recorded: Any, answered: Any, local_id: Callable[[str], str], path: str, lengths: bool) -> Iterator[str]:
    if lengths and len(recorded) != len(answered):
        yield f"{path}: {len(recorded)} items became {len(answered)}"
    elif not lengths and bool(recorded) != bool(answered):
        yield f"{path}: {'some' if recorded else 'no'} items became {'some' if answered else 'none'}"
    by_id = {item["id"]: item for item in answered if isinstance(item, dict) and "id" in item}
    for number, item in enumerate(recorded):
        counterpart = None
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            counterpart = by_id.get(local_id(item["id"]))
        if counterpart is None and number < len(answered) and (lengths or not by_id):
            counterpart = answered[number]
        if counterpart is not None:
            yield from differences(item, counterpart, local_id, f"{path}[]", lengths=lengths)
