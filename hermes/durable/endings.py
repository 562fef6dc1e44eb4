"""What a durable function may return beside its result, and what a check of a command may answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from hermes.durable.function import Function

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refused:
    """The work is refused for a reason of business: nothing is tried again, people read the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snooze:
    """Deliver again from the record, not before `until`; spends no delivery."""

    until: datetime
    reason: str

    def __post_init__(self) -> None:
        if self.until.tzinfo is None:
            raise ValueError("Snooze(until): give the time a zone, for example by starting from hermes.durable.now()")


@dataclass(frozen=True, slots=True)
class ContinueAsNew:
    """What `continue_as_new` gives."""

    function: Function[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A check found that the change was made, and what the command would have returned."""

    result: T
