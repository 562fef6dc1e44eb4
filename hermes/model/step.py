"""Steps: the recorded units of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermes.model.run import EffectClass, Lease, Run, RunError


class StepKind(StrEnum):
    command = "command"
    delay = "delay"
    child = "child"
    """Another run, started or joined by its key; its ending is this step's."""
    value = "value"
    """What `now()`, `uuid()` or `random()` gave."""
    event = "event"
    """A wait for an event; its result is the payload."""
    race = "race"
    """What `when_any()` came to; its result is the number of the step that won."""
    fire = "fire"
    """An event that this run fired."""
    patch = "patch"
    """`patched()` said yes."""
    person = "person"
    """`ask_a_person()` parked the run; it stands at the next delivery, which is that of a resume."""


class StepState(StrEnum):
    started = "started"
    """An attempt's intent is recorded and its outcome is not: unknown to everyone but its own worker."""
    unknown = "unknown"
    """The attempt's worker itself does not know: a timeout, a lost answer."""
    retry = "retry"
    """The last attempt surely failed and another may be made."""
    waiting = "waiting"
    """A delay that is not due, a child that has not ended, an event that has not come."""
    parked = "parked"
    """The child is parked."""
    done = "done"
    failed = "failed"
    """Raised at the await; final once a later step is recorded."""
    lost = "lost"
    """A command whose race another step has won: it is not tried again, and what it still brings is a receipt."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step as anyone may read it. Arguments and result stay the JSON text they are stored as, since only the
    command's annotations say what they mean."""

    run_id: str
    seq: int
    kind: StepKind
    name: str
    state: StepState
    attempts: int = 0
    attempts_before: int = 0
    """Attempts made before the retries were granted afresh; all of them, of a failure that is never granted any."""
    args_json: str | None = None
    result_json: str | None = None
    error: RunError | None = None
    effect: EffectClass | None = None
    first_attempt_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    due_at: datetime | None = None
    awaits_run_id: str | None = None

    @property
    def outcome_unknown(self) -> bool:
        return self.state in (StepState.started, StepState.unknown)


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """What a worker gets to drive: the run, its lease and everything recorded so far."""

    run: Run
    lease: Lease
    steps: tuple[Step, ...]
