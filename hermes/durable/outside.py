"""What handles are where there is no run: in plain unit tests, where nothing is recorded and no time passes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn


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
