"""Durable functions: replayed from their record, so that they survive the process that runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from hermes.durable.codec import Arguments, Codec, resolved_hints, without_endings
from hermes.durable.endings import ContinueAsNew
from hermes.durable.registry import REGISTRY
from hermes.model.json import JSON

P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """Calling it gives the plain coroutine: part of the caller's run inside one, an ordinary coroutine in a test."""

    def __init__(self, call: Callable[P, Coroutine[Any, Any, R]], name: str | None) -> None:
        if not inspect.iscoroutinefunction(call):
            raise TypeError(f"a durable function is an `async def`: {call!r}")
        self.call = call
        self.name = name or f"{call.__module__}.{call.__qualname__}"
        update_wrapper(cast(Callable[..., Any], self), call)
        REGISTRY.add(self, call.__module__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.call(*args, **kwargs)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return resolved_hints(self.call, self.name)

    @cached_property
    def arguments(self) -> Arguments:
        return Arguments(self.call, self._hints, self.name)

    @cached_property
    def ending(self) -> Codec:
        return Codec(without_endings(self._hints.get("return", Any)), f"the result of {self.name}")

    def parameters(self) -> dict[str, bool]:
        return self.arguments.needed()

    def resolve(self) -> None:
        _ = self.arguments, self.ending

    def coroutine(self, args: Mapping[str, JSON]) -> object:
        positional, named = self.arguments.from_json(args)
        return self.call(*positional, **named)


@overload
def function(call: Callable[P, Coroutine[Any, Any, R]], /) -> Function[P, R]: ...
@overload
def function(*, name: str | None = None) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Function[P, R]]: ...
def function(call: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """An `async def` that awaits commands, delays and other durable functions, and nothing else.

    It returns its result, `Refused(reason)`, `Snooze(until, reason)` or `continue_as_new(...)`. `name`: under which
    its runs are kept, for code that moves."""

    def decorate(body: Callable[..., Any]) -> Function[Any, Any]:
        return Function(body, name)

    return decorate if call is None else decorate(call)


def continue_as_new(function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> ContinueAsNew:
    """`return continue_as_new(watch, order_id, since)`: the run goes on at once under its id and key, as a call of
    `function` with these arguments and nothing recorded. For functions that never end: what they must remember they
    take along in the arguments."""
    return ContinueAsNew(function, args, kwargs)
