"""What handles are where there is no run: in plain unit tests, where nothing is recorded and no time passes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeVar

from hermes.durable.outcome import Error, Value

T = TypeVar("T")


class Nothing:
    """There is nothing to wait for. Any number of awaits."""

    def __await__(self) -> Generator[Any, Any, None]:
        return None
        yield


class Nobody:
    """Whom a person would be asked for goes on only when one has answered."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __await__(self) -> Generator[Any, Any, NoReturn]:
        raise LookupError(f"outside a run there is nobody to ask: {self._reason}")
        yield


class NoEvent:
    """Nobody can fire: a time-out is over at once, and a wait for ever would be one."""

    def __init__(self, timed_out: Exception, forever: bool) -> None:
        self._timed_out = timed_out
        self._forever = forever

    def __await__(self) -> Generator[Any, Any, NoReturn]:
        if self._forever:
            raise LookupError("outside a run nobody can fire: drive it with hermes.testing.durable")
        raise self._timed_out
        yield


class Called(Coroutine[Any, Any, T]):
    """A command or a child: made at the first await, and not at all without one; each further await gives the same. A
    coroutine too, for `asyncio.run`."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._outcome: Value | Error | None = None
        self._driver: Generator[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        if self._outcome is None:
            try:
                self._outcome = Value((yield from self._make().__await__()))
            except Exception as exc:  # noqa: BLE001 - raised below, at every await
                self._outcome = Error(exc)
        if isinstance(self._outcome, Error):
            raise self._outcome.error
        found: T = self._outcome.value
        return found

    def send(self, value: Any) -> Any:
        return self._driven().send(value)

    def throw(self, *raised: Any) -> Any:
        return self._driven().throw(*raised)

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _driven(self) -> Generator[Any, Any, T]:
        self._driver = self._driver or self.__await__()
        return self._driver
