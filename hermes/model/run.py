"""Runs, their states and endings, and what a worker holds while it drives one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermes.model.event import DEFAULT_NAMESPACE
from hermes.model.json import JSON


class RunState(StrEnum):
    ready = "ready"
    """May be leased once `due_at` has come and it is not `held`."""
    running = "running"
    waiting = "waiting"
    """Hibernates until `due_at` or until a child run ends."""
    succeeded = "succeeded"
    refused = "refused"
    failed = "failed"
    """A dead letter: `runs resume` continues it under the same key."""
    parked = "parked"
    """A person must look first: unknown naive outcome, changed code, poison crash."""
    cancelled = "cancelled"

    @property
    def final(self) -> bool:
        """No worker will touch it unless a person resumes it."""
        return self in FINAL


FINAL = frozenset({RunState.succeeded, RunState.refused, RunState.failed, RunState.parked, RunState.cancelled})


class RunKind(StrEnum):
    card = "card"
    effect = "effect"
    function = "function"


class EffectClass(StrEnum):
    """What an unknown outcome of a command means (DESIGN.md section 5, promise 7)."""

    keyed = "keyed"
    checkable = "checkable"
    naive = "naive"
    none = "none"


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be started. A key that exists already starts nothing."""

    key: str
    kind: RunKind
    function: str
    args: dict[str, JSON]
    run_id: str | None = None
    """Chosen beforehand where the outside must know it first (a claim); else a new one."""
    due_at: datetime | None = None
    held: bool = False
    """A held run is not leased until it is released: a card's run waits for its claim."""
    place_group: str | None = None
    """Runs of one group run at most as many at once as the group has places."""
    priority: float = 0.0
    """Lower runs first."""
    max_deliveries: int = 16
    """First delivery plus redeliveries."""
    poll_id: str | None = None
    condition_version: str | None = None
    object_id: str | None = None
    parent_run_id: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    hold_on_redelivery: bool = False
    """A redelivered run waits held: in exclusive mode a card goes back to Todo and must be claimed again first."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's time-limited ownership of a run. Every write for the run carries the fence."""

    run_id: str
    owner: str
    fence: int
    until: datetime


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run or an attempt ended badly; `trace` is kept in our database, never on a board."""

    kind: str
    message: str
    trace: str | None = None

    @property
    def short_kind(self) -> str:
        """The class's own name: `ConnectError` of `httpx:ConnectError`."""
        return self.kind.rpartition(":")[2].rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Run:
    """A run as anyone may read it."""

    id: str
    key: str
    kind: RunKind
    function: str
    args: dict[str, JSON]
    state: RunState
    deliveries: int
    """Deliveries that ended in an uncaught exception."""
    max_deliveries: int
    crashes: int
    """Take-overs in a row without a step being recorded."""
    take_overs: int
    owner: str | None
    fence: int
    lease_until: datetime | None
    due_at: datetime | None
    held: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    result: JSON
    error: RunError | None
    reason: str | None
    """In plain words: a refusal, a snooze, why it is parked, who cancelled it."""
    poll_id: str | None
    condition_version: str | None
    object_id: str | None
    parent_run_id: str | None
    cancel_reason: str | None = None
    """Set when somebody asked to stop it; it stops at its next step."""
    place_group: str | None = None
    priority: float = 0.0
    hold_on_redelivery: bool = False
    duplicates: int = 0
    """How often somebody asked for this key again and got this run instead of a second one."""
    changed_at: datetime | None = None
    namespace: str = DEFAULT_NAMESPACE
    base_seq: int = 0
    """Last step of the histories before this one."""
    continued: int = 0
    """How often it has begun an empty history."""
    whole: bool = True
    """False: it is over for so long that only its key and its ending are kept."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened to a run, in order."""

    at: datetime
    what: str
    step: int | None = None
    detail: dict[str, JSON] = field(default_factory=dict)
