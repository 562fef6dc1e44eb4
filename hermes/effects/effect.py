"""Asking for an effect: from a durable function, which awaits it, or from any transaction, which only queues it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from hermes.durable.command import Command
from hermes.durable.context import driving
from hermes.durable.settings import EngineSettings
from hermes.model.run import NewRun, RunKind
from hermes.ports.runs import RunsUnit

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Effect(Generic[R]):
    """One command with its arguments, to be made once under a key."""

    command: Command[..., R]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    key: str

    @classmethod
    def of(cls, command: Command[P, R], key: str, /, *args: P.args, **kwargs: P.kwargs) -> Effect[R]:
        return cls(command, args, kwargs, key)

    def run(
        self,
        *,
        priority: float = 0.0,
        max_deliveries: int = 16,
        poll_id: str | None = None,
        condition_version: str | None = None,
        object_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> NewRun:
        max_bytes = EngineSettings().max_bytes
        return NewRun(
            key=self.key,
            kind=RunKind.effect,
            function=self.command.name,
            args=self.command.arguments.to_json(self.args, self.kwargs, max_bytes),
            priority=priority,
            max_deliveries=max_deliveries,
            poll_id=poll_id,
            condition_version=condition_version,
            object_id=object_id,
            parent_run_id=parent_run_id,
        )


def perform(effect: Effect[R]) -> Awaitable[R]:
    """In a durable function: make the effect, or join the one of that key, and await its ending. A failure surfaces
    here like a command's; an effect that needs a person parks this run too. In a plain unit test the command runs."""
    delivery = driving.get()
    if delivery is None:
        return effect.command(*effect.args, **dict(effect.kwargs))
    parent = delivery.run
    child = effect.run(
        priority=parent.priority,
        # One delivery: the command's own retries. What was not enough is for the awaiting function to deliver again.
        max_deliveries=1,
        poll_id=parent.poll_id,
        condition_version=parent.condition_version,
        object_id=parent.object_id,
    )
    return delivery.child(child, effect.command.result)


def enqueue(unit: RunsUnit, effect: Effect[Any], **about: Any) -> tuple[str, bool]:
    """In a transaction: (run id, created). It commits with whatever caused it. `about`: as for `Effect.run`."""
    return unit.runs.enqueue(effect.run(**about))
