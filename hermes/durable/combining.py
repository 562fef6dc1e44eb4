"""Awaiting several steps at once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

from hermes.durable.context import driving, only_in_a_function
from hermes.durable.handles import ChildHandle, CommandHandle, DelayHandle, EventHandle, Handle

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")

_MEMBERS = (CommandHandle, DelayHandle, EventHandle, ChildHandle)


def when_any(*handles: Awaitable[T]) -> Awaitable[Awaitable[T]]:
    """The one of these handles that is over first, itself: `if await when_any(paid, deadline) is deadline`. Of several
    that are over, the one that has been for longest, then the one that was called first. Await it for its result; one
    that failed raises there.

    Neither `when_any` nor `when_all` takes the other: what is to be awaited as one is a run of its own, by `start()`.

    Who wins is recorded once. The others have consumed nothing and may be awaited again, but a command among them is
    not tried again: what its last attempt still brings is kept as a receipt.
    """
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("when_any")
        return _first(_some(handles, "when_any"))
    return delivery.race(_handles(handles, "when_any"))


@overload
def when_all(one: Awaitable[T1], two: Awaitable[T2], /) -> Awaitable[tuple[T1, T2]]: ...
@overload
def when_all(one: Awaitable[T1], two: Awaitable[T2], three: Awaitable[T3], /) -> Awaitable[tuple[T1, T2, T3]]: ...
@overload
def when_all(
    one: Awaitable[T1], two: Awaitable[T2], three: Awaitable[T3], four: Awaitable[T4], /
) -> Awaitable[tuple[T1, T2, T3, T4]]: ...
@overload
def when_all(*handles: Awaitable[T]) -> Awaitable[tuple[T, ...]]: ...
def when_all(*handles: Awaitable[Any]) -> Awaitable[tuple[Any, ...]]:
    """The results of all these handles, in their order. Commands run side by side, up to `fan_out` of a run at once. It
    waits for every one of them, also when some fail; then the failure of the one that was called first is raised, and
    the others can still be awaited one by one."""
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("when_all")
        return _all(handles)
    return delivery.all(_handles(handles, "when_all"))


def _some(handles: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if not handles:
        raise ValueError(f"{what}() of nothing would never be over")
    return handles


def _handles(handles: tuple[Any, ...], what: str) -> tuple[Handle[Any], ...]:
    for handle in handles:
        if not isinstance(handle, _MEMBERS):
            if inspect.iscoroutine(handle):
                handle.close()
            raise TypeError(
                f"{what}() takes what commands, delay(), wait_for_event() and start() give, not {handle!r}: "
                "a durable function takes part as a run of its own, by start()"
            )
    return _some(handles, what) if what == "when_any" else handles


async def _first(handles: tuple[Awaitable[T], ...]) -> Awaitable[T]:
    """Outside a run nothing takes time: the one that was called first."""
    return handles[0]


async def _all(handles: tuple[Awaitable[Any], ...]) -> tuple[Any, ...]:
    results, failures = [], []
    for handle in handles:
        try:
            results.append(await handle)
        except Exception as exc:  # noqa: BLE001 - raised below, once the others are over
            failures.append(exc)
    if failures:
        raise failures[0]
    return tuple(results)
