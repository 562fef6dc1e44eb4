"""Commands: the steps of a durable function that touch the outside, each recorded once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import cached_property, update_wrapper
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from hermes.clock import SystemClock
from hermes.durable.codec import Arguments, Codec, resolved_hints
from hermes.durable.context import StepInfo, driving, step_info
from hermes.durable.endings import Found
from hermes.durable.outside import Called
from hermes.durable.registry import REGISTRY
from hermes.model.json import JSON
from hermes.model.run import EffectClass

P = ParamSpec("P")
R = TypeVar("R")

EffectName = Literal["keyed", "checkable", "naive", "none"]
Check = Callable[..., "Found[Any] | Awaitable[Found[Any] | None] | None"]

DEFAULT_RETRIES = 5
DEFAULT_TIMEOUT = timedelta(minutes=5)
DEFAULT_KEY_TTL = timedelta(hours=24)


class Command(Generic[P, R]):
    """Inside a durable function, calling it makes a numbered step to await. Anywhere else it just runs."""

    def __init__(
        self,
        call: Callable[P, Awaitable[R]] | Callable[P, R],
        *,
        name: str | None,
        retries: int,
        timeout: timedelta,
        effect: EffectClass,
        check: Check | None,
        key_ttl: timedelta,
    ) -> None:
        self.call = call
        self.name = name or f"{call.__module__}.{call.__qualname__}"
        self.retries = retries
        self.timeout = timeout
        self.effect = effect
        self.check = check
        self.key_ttl = key_ttl
        if retries < 0:
            raise ValueError(f"{self.name}: retries is 0 or more, not {retries}")
        if timeout <= timedelta(0):
            raise ValueError(f"{self.name}: timeout must be longer than nothing")
        if (check is not None) != (effect is EffectClass.checkable):
            raise ValueError(f'{self.name}: check= and effect="checkable" go together')
        update_wrapper(cast(Callable[..., Any], self), call)
        REGISTRY.add(self, call.__module__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        delivery = driving.get()
        if delivery is not None:
            return delivery.command(self, args, kwargs)
        return Called(lambda: self._outside(*args, **kwargs))

    async def _outside(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """In a plain unit test, or called by another command: no record, one attempt."""
        token = step_info.set(step_info.get() or self._stand_in())
        try:
            result = self.call(*args, **kwargs)
            return cast(R, await result if inspect.isawaitable(result) else result)
        finally:
            step_info.reset(token)

    def _stand_in(self) -> StepInfo:
        deadline = SystemClock().now() + self.timeout
        return StepInfo(f"outside-a-run:{self.name}", "outside-a-run", "outside-a-run", 1, 1, deadline, stand_in=True)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return resolved_hints(self.call, self.name)

    @cached_property
    def arguments(self) -> Arguments:
        return Arguments(self.call, self._hints, self.name)

    @cached_property
    def result(self) -> Codec:
        return Codec(self._hints.get("return", Any), f"the result of {self.name}")

    @property
    def ending(self) -> Codec:
        return self.result

    def parameters(self) -> dict[str, bool]:
        return self.arguments.needed()

    def resolve(self) -> None:
        _ = self.arguments, self.result

    def coroutine(self, args: Mapping[str, JSON]) -> object:
        return self._alone(*self.arguments.from_json(args))

    async def _alone(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """A run of this command alone."""
        return await self(*args, **kwargs)


@overload
def command(call: Callable[P, Awaitable[R]], /) -> Command[P, R]: ...
@overload
def command(call: Callable[P, R], /) -> Command[P, R]: ...
@overload
def command(
    *,
    name: str | None = None,
    retries: int = DEFAULT_RETRIES,
    timeout: timedelta = DEFAULT_TIMEOUT,
    effect: EffectName = "keyed",
    check: Check | None = None,
    key_ttl: timedelta = DEFAULT_KEY_TTL,
) -> _Decorator: ...
def command(
    call: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retries: int = DEFAULT_RETRIES,
    timeout: timedelta = DEFAULT_TIMEOUT,
    effect: EffectName = "keyed",
    check: Check | None = None,
    key_ttl: timedelta = DEFAULT_KEY_TTL,
) -> Any:
    """A side effect whose result is recorded once. Sync or async; its arguments and result go through JSON.

    `retries`: attempts after the first one; 0 means at most once. `timeout`: of one attempt. `effect` says what an
    attempt of unknown outcome means: `keyed` sends the same idempotency key again until `key_ttl` after the first
    attempt, `checkable` asks `check(idempotency_key, *args)` first (`Found(result)` or None), `naive` parks the run for
    a person, `none` is a read. A `naive` command says by raising `hermes.errors.Retryable` that nothing happened; any
    other exception of it parks too. `name`: under which it is recorded, for code that moves.
    """
    decorate = _Decorator(name, retries, timeout, EffectClass(effect), check, key_ttl)
    return decorate if call is None else decorate(call)


class _Decorator:
    def __init__(
        self,
        name: str | None,
        retries: int,
        timeout: timedelta,
        effect: EffectClass,
        check: Check | None,
        key_ttl: timedelta,
    ) -> None:
        self._options: dict[str, Any] = {
            "name": name,
            "retries": retries,
            "timeout": timeout,
            "effect": effect,
            "check": check,
            "key_ttl": key_ttl,
        }

    @overload
    def __call__(self, call: Callable[P, Awaitable[R]], /) -> Command[P, R]: ...
    @overload
    def __call__(self, call: Callable[P, R], /) -> Command[P, R]: ...
    def __call__(self, call: Callable[..., Any], /) -> Any:
        return Command(call, **self._options)
