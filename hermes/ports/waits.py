"""What the durable engine needs of the store for what a held run awaits. As in `runs.py`, every method is part of the
caller's transaction and conditional on the lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes.model.event import NewEvent
from hermes.model.run import Lease, RunError
from hermes.model.step import Step
from hermes.ports.pending import NOTHING, NewStep, Pending


@dataclass(frozen=True, slots=True)
class NewWait:
    """A wait that begins to be awaited; its step is recorded."""

    seq: int
    name: str
    instance_id: str


class Waits(Protocol):
    """What a held run awaits. Methods that take a `Lease` raise CancelAsked too."""

    def open(
        self,
        lease: Lease,
        waits: Sequence[NewWait],
        *,
        race: NewStep | None,
        lost: Sequence[int] = (),
        awaits: Sequence[int] = (),
        reason: str | None,
        pending: Pending = NOTHING,
    ) -> tuple[dict[int, Step], bool]:
        """Give each wait the oldest event that is kept for it, else open it. In a `race` (its step without a result)
        the first that gets one has won: the race is recorded, commands in `lost` are, and nothing is opened.

        With a `reason`, and when no wait got an event, the run hibernates until the first of the steps in `awaits` is
        due, an event comes or a child ends. Returns the steps that are recorded now, and whether it hibernates."""
        ...

    def close(
        self,
        lease: Lease,
        waits: Sequence[NewWait],
        *,
        race: NewStep | None,
        timed_out: Sequence[int] = (),
        pending: Pending = NOTHING,
    ) -> dict[int, Step]:
        """The end of these waits: those in `timed_out` are failed, unless an event came first; `race` is recorded with
        the winner its result names, unless an event came first: then that has won. Commands in `pending.lost` lose.
        Returns the steps of the waits and of the race as they stand now, and those that were pending."""
        ...

    def fire(
        self, lease: Lease, seq: int, new: NewEvent, *, max_kept: int, pending: Pending = NOTHING
    ) -> dict[int, Step]:
        """A run fires: the event and the step that says so are one transaction. Made again it changes nothing.
        Returns the steps that are recorded now."""
        ...

    def fire_failed(
        self, lease: Lease, seq: int, new: NewEvent, error: RunError, *, pending: Pending = NOTHING
    ) -> dict[int, Step]:
        """The event was refused: raised at the await, now and at every replay, and fired again by a redelivery."""
        ...

    def clear(self, run_id: str) -> None:
        """The run awaits nothing any more."""
        ...
