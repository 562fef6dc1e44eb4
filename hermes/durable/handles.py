"""What a durable function awaits. A handle yields itself to the driver, which sends back what the step came to."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes.durable.codec import Codec
from hermes.ports.waits import NewWait

if TYPE_CHECKING:
    from hermes.durable.command import Command
    from hermes.durable.outcome import Outcome
    from hermes.durable.replay import Replay
    from hermes.model.event import NewEvent
    from hermes.model.run import NewRun

T_co = TypeVar("T_co", covariant=True)


class Handle(Generic[T_co]):
    """A numbered step of one run; may be awaited more than once."""

    def __init__(self, delivery: Replay, seq: int, name: str) -> None:
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
    def __init__(self, delivery: Replay, seq: int, command: Command[Any, T_co], args_json: str) -> None:
        super().__init__(delivery, seq, command.name)
        self.command = command
        self.args_json = args_json


class DelayHandle(Handle[None]):
    def __init__(self, delivery: Replay, seq: int, wait: timedelta) -> None:
        super().__init__(delivery, seq, "delay")
        self.wait = wait


class ChildHandle(Handle[T_co]):
    def __init__(self, delivery: Replay, seq: int, child: NewRun, result: Codec) -> None:
        super().__init__(delivery, seq, child.function)
        self.child = child
        self.result = result


class EventHandle(Handle[T_co]):
    def __init__(self, delivery: Replay, seq: int, name: str, instance_id: str, payload: Codec) -> None:
        super().__init__(delivery, seq, name)
        self.instance_id = instance_id
        self.payload = payload

    @property
    def new(self) -> NewWait:
        return NewWait(self.seq, self.name, self.instance_id)


class FireHandle(Handle[None]):
    def __init__(self, delivery: Replay, seq: int, event: NewEvent) -> None:
        super().__init__(delivery, seq, event.name)
        self.event = event


class PersonHandle(Handle[None]):
    def __init__(self, delivery: Replay, seq: int, reason: str) -> None:
        super().__init__(delivery, seq, "ask_a_person")
        self.reason = reason


class RaceHandle(Handle[Handle[Any]]):
    """Its result is the handle that won."""

    def __init__(self, delivery: Replay, seq: int, members: tuple[Handle[Any], ...]) -> None:
        super().__init__(delivery, seq, "when_any")
        self.members = members

    @property
    def members_json(self) -> str:
        return json.dumps([member.seq for member in self.members])


class AllHandle(Handle[tuple[Any, ...]]):
    """No step of its own: everything about it is recorded by its members."""

    def __init__(self, delivery: Replay, members: tuple[Handle[Any], ...]) -> None:
        super().__init__(delivery, members[0].seq if members else 0, "when_all")
        self.members = members
