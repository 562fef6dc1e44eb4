"""What a durable function awaits. A handle yields itself to the driver, which sends back what the step came to."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes.durable.codec import Codec

if TYPE_CHECKING:
    from hermes.durable.command import Command
    from hermes.durable.delivery import Delivery
    from hermes.durable.outcome import Outcome
    from hermes.model.run import NewRun

T_co = TypeVar("T_co", covariant=True)


class Handle(Generic[T_co]):
    """A numbered step of one run; may be awaited more than once."""

    def __init__(self, delivery: Delivery, seq: int, name: str) -> None:
        self.delivery = delivery
        self.seq = seq
        self.name = name
        self.outcome: Outcome | None = None
        """What awaiting it came to, once it has."""

    def __await__(self) -> Generator[Handle[Any], Any, T_co]:
        result: T_co = yield self
        return result

    def __repr__(self) -> str:
        return f"<step {self.seq} {self.name}>"


class CommandHandle(Handle[T_co]):
    def __init__(self, delivery: Delivery, seq: int, command: Command[Any, T_co], args_json: str) -> None:
        super().__init__(delivery, seq, command.name)
        self.command = command
        self.args_json = args_json


class DelayHandle(Handle[None]):
    def __init__(self, delivery: Delivery, seq: int, wait: timedelta) -> None:
        super().__init__(delivery, seq, "delay")
        self.wait = wait


class ChildHandle(Handle[T_co]):
    def __init__(self, delivery: Delivery, seq: int, child: NewRun, result: Codec) -> None:
        super().__init__(delivery, seq, child.function)
        self.child = child
        self.result = result
