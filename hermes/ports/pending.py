"""What a run records beside its next change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hermes.model.run import NewRun
from hermes.model.step import StepKind


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step that is recorded with the next transaction of its run: a recorded value, a delay or a wait for an event
    that is armed, a child that is started."""

    seq: int
    kind: StepKind
    name: str
    args_json: str | None = None
    result_json: str | None = None
    wait: timedelta | None = None
    """Of a delay or a wait: due this long after it is recorded."""
    not_after: datetime | None = None
    """And then at the latest."""
    child: NewRun | None = None

    @property
    def over(self) -> bool:
        """Nothing is waited for: its result stands."""
        return self.kind not in (StepKind.delay, StepKind.event, StepKind.child)


@dataclass(frozen=True, slots=True)
class Pending:
    """What a run has to record beside its next change. Delays are armed by the database's clock, and a child may have
    been started by somebody else: the methods that take a Pending return the new steps as they were recorded."""

    new: tuple[NewStep, ...] = ()
    passed: tuple[int, ...] = ()
    """Delays that were found due: from now on they are, whatever clocks say."""
    lost: tuple[int, ...] = ()
    """Commands whose race another step has won."""
    long: int | None = None
    """The history has just become so many steps long that people are told."""


NOTHING = Pending()
