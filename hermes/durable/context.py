"""Where the code that is running now stands: inside a durable function, inside a command, or in neither."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.durable.delivery import Delivery


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What a command may know about the step it is."""

    idempotency_key: str
    """Fixed before the first attempt, the same for every attempt in any process: send it with the effect."""
    run_id: str
    run_key: str
    seq: int
    attempt: int
    """Counts from 1 over the whole life of the run."""
    deadline: datetime
    """When the engine stops waiting for this attempt."""
    stand_in: bool = False
    """There is no run: a plain unit test."""


driving: ContextVar[Delivery | None] = ContextVar("hermes_driving", default=None)
"""Set while the driver lets a durable function go on in this thread; never inside a command."""

step_info: ContextVar[StepInfo | None] = ContextVar("hermes_step", default=None)


def current_step() -> StepInfo:
    """For commands. Raises LookupError anywhere else."""
    info = step_info.get()
    if info is None:
        raise LookupError("current_step() is for the body of a command")
    return info


def only_in_a_function(what: str) -> None:
    """Raises RuntimeError in the body of a command: a command is one attempt at one thing, and cannot wait."""
    info = step_info.get()
    if info is not None and not info.stand_in:
        raise RuntimeError(f"{what}() is for durable functions: step {info.seq} of run {info.run_id} is a command")
