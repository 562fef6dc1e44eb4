"""Arguments and results as JSON, by annotation. What was kept is what everyone gets: values pass through their JSON at
the first time too, so that a replay sees nothing else."""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import typing_extensions
from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from hermes.durable.endings import ContinueAsNew, Refused, Snooze
from hermes.durable.failure import NotStorable
from hermes.model.json import JSON

_CONFIG = ConfigDict(extra="forbid", ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64")
_GATHERING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ENDINGS = (Refused, Snooze, ContinueAsNew)
_Adapter: TypeAlias = "TypeAdapter[Any]"


class Codec:
    """One annotation. `what` names it in errors."""

    def __init__(self, annotation: object, what: str) -> None:
        self.what = what
        self._adapter = _adapter(annotation, what)

    def dump(self, value: object, max_bytes: int) -> str:
        try:
            data = self._adapter.dump_json(self._adapter.validate_python(value))
            self._adapter.validate_json(data)
        except ValidationError as exc:
            raise NotStorable(f"{self.what} does not fit its annotation: {_short(exc)}") from exc
        except (PydanticSerializationError, UnicodeError, RecursionError) as exc:
            raise NotStorable(f"{self.what} cannot be kept as JSON: {exc}") from exc
        if len(data) > max_bytes:
            raise NotStorable(f"{self.what} is {len(data):,} bytes as JSON; the limit is {max_bytes:,}")
        return data.decode()

    def load(self, text: str) -> Any:
        try:
            return self._adapter.validate_json(text)
        except ValidationError as exc:
            raise NotStorable(f"{self.what} as recorded does not fit its annotation: {_short(exc)}") from exc


class Arguments:
    """The parameters of a function or command, as one JSON object by name."""

    def __init__(self, call: Callable[..., object], hints: Mapping[str, object], name: str) -> None:
        self._signature = inspect.signature(call)
        fields: dict[str, Any] = {}
        for parameter in self._signature.parameters.values():
            hint: Any = hints.get(parameter.name, Any)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                hint = list[hint]
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                hint = dict[str, hint]
            optional = parameter.default is not parameter.empty or parameter.kind in _GATHERING
            fields[parameter.name] = typing_extensions.NotRequired[hint] if optional else hint
        shape = cast(Any, typing_extensions.TypedDict)("Arguments", fields)
        shape.__pydantic_config__ = _CONFIG
        self._codec = Codec(shape, f"the arguments of {name}")

    def dump(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], max_bytes: int) -> str:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._codec.dump(dict(bound.arguments), max_bytes)

    def load(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the call."""
        bound = inspect.BoundArguments(self._signature, self._codec.load(text))
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def from_json(self, args: Mapping[str, JSON]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Of a run that is starting: what is left out has its default."""
        try:
            bound = self._signature.bind(**args)
        except TypeError as exc:
            raise NotStorable(f"{self._codec.what}: {exc}") from exc
        bound.apply_defaults()
        return self.load(self._codec.dump(dict(bound.arguments), sys.maxsize))

    def needed(self) -> dict[str, bool]:
        """Parameters by name, and whether each must be given."""
        return {
            parameter.name: parameter.default is parameter.empty
            for parameter in self._signature.parameters.values()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }

    def to_json(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], max_bytes: int) -> dict[str, JSON]:
        found: dict[str, JSON] = json.loads(self.dump(args, kwargs, max_bytes))
        return found


def resolved_hints(call: Callable[..., object], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(call, include_extras=True)
    except NameError as exc:
        raise NotStorable(f"an annotation of {name} cannot be resolved: {exc}") from exc


def without_endings(annotation: object) -> object:
    """The annotation of a function's result alone: `str | Refused | Snooze` keeps `str`."""
    if annotation in _ENDINGS:
        return None
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kept = tuple(arm for arm in typing.get_args(annotation) if arm not in _ENDINGS)
        return typing.Union[kept] if kept else None  # noqa: UP007 - built from a tuple
    return annotation


def _adapter(annotation: Any, what: str) -> _Adapter:
    try:
        try:
            return TypeAdapter(annotation, config=_CONFIG)
        except PydanticUserError as exc:
            if exc.code != "type-adapter-config-unused":
                raise
            return TypeAdapter(annotation)  # a model or typed dict: it has its own
    except PydanticSchemaGenerationError as exc:
        raise NotStorable(f"{what} cannot be kept as JSON: {exc.message}") from exc


def _short(exc: ValidationError) -> str:
    first = exc.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
