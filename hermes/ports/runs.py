"""What the durable engine, the claim layer and the pages need from the store of runs.

Every method is part of the caller's transaction. A method that takes a `Lease` is conditional on it: when the run is no
longer held under that owner and fence it changes nothing and raises `LeaseLost`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeVar

from hermes.model.run import EffectClass, Lease, NewRun, Run, RunError, RunState, TimelineEntry
from hermes.model.step import LeasedRun, Step, StepState
from hermes.ports.pending import NOTHING, Pending
from hermes.ports.presence import Presence
from hermes.ports.waits import Waits

T = TypeVar("T")


class CancelAsked(Exception):
    """Somebody asked to stop this run: it takes no further step. The transaction changed nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Decision(StrEnum):
    """What a person found out about a naive step that may have happened."""

    done = "done"
    again = "again"


class Resumed(StrEnum):
    resumed = "resumed"
    unknown_run = "unknown_run"
    not_stopped = "not_stopped"
    """It is not failed, parked or cancelled: somebody resumed it already, or it never stopped."""
    forgotten = "forgotten"
    """Its steps are no longer kept: going on would do again what is done."""
    needs_decision = "needs_decision"
    """A naive step may have happened: say whether it did (`done`) or is to be made again (`again`)."""


class Runs(Protocol):
    def enqueue(self, new: NewRun) -> tuple[str, bool]:
        """(run id, created). A key that exists starts nothing and is counted as a suppressed duplicate.
        Raises ValueError for a key that cannot be one."""
        ...

    def get(self, run_id: str) -> Run | None: ...

    def by_key(self, key: str) -> Run | None: ...

    def list(
        self,
        *,
        states: Collection[RunState] = (),
        kind: str | None = None,
        poll_id: str | None = None,
        object_id: str | None = None,
        limit: int = 50,
        before: datetime | None = None,
    ) -> list[Run]:
        """Newest first; `before` is the `created_at` of the last one seen."""
        ...

    def steps(self, run_id: str) -> Sequence[Step]: ...

    def timeline(self, run_id: str) -> Sequence[TimelineEntry]: ...

    def children(self, run_id: str) -> Sequence[Run]: ...

    def stranded(self, functions: Collection[str]) -> Sequence[Run]:
        """Runs due whose function is none of `functions`: this code will never lease them."""
        ...

    def hold(self, run_id: str, reason: str) -> bool:
        """Keep a ready or waiting run from being leased. False when it is running or over."""
        ...

    def release_hold(self, run_id: str, due_at: datetime | None = None) -> bool:
        """Let a held run be leased, not before `due_at` (default: when it was due anyway)."""
        ...

    def park(self, run_id: str, reason: str) -> bool:
        """A held run waits for a person: it can be resumed. False when it is not held."""
        ...

    def cancel(self, run_id: str, reason: str) -> bool:
        """Not running: cancelled at once. Running: it stops at its next step. False when it is over already."""
        ...

    def resume(
        self,
        run_id: str,
        *,
        decision: Decision | None = None,
        result_json: str | None = None,
        held: bool = False,
        by: str | None = None,
    ) -> Resumed:
        """Continue a failed, parked or cancelled run under its key: finished steps stay finished, the last failed one
        is tried afresh. `result_json` is what a step decided `done` had returned."""
        ...


class Places(Protocol):
    def set_places(self, group: str, count: int) -> None:
        """Runs of `group` run at most `count` at once. A group without places runs nothing."""
        ...

    def take_place(self, group: str, run_id: str, until: datetime) -> bool:
        """Take a place for a run, or keep the one it has, until `until`. False when all are taken."""
        ...

    def release_place(self, run_id: str) -> None: ...

    def free_places(self, group: str) -> int: ...


class Leases(Protocol):
    def lease(
        self,
        owner: str,
        lease_for: timedelta,
        functions: Collection[str],
        limit: int,
        *,
        suspects: int | None = None,
        suspect_after: int = 2,
    ) -> list[LeasedRun]:
        """Up to `limit` due runs of these functions, lowest priority number first, each with a place if it needs. Not
        more than `suspects` of them have crashed `suspect_after` times in a row."""
        ...

    def renew(self, owner: str, leases: Collection[Lease], lease_for: timedelta, *, waits: bool = True) -> set[Lease]:
        """Extend them and their places; those that are not in the answer are lost. Without `waits` they may also be
        under the hands of another transaction: those were not extended, and must be asked for again."""
        ...

    def of(self, owner: str) -> set[Lease]:
        """All that it holds, as the database says."""
        ...

    def rescue(
        self,
        *,
        poison_after: int,
        suspect_after: int = 2,
        suspect_pause: timedelta = timedelta(0),
        limit: int = 100,
        gone: Collection[str] = (),
    ) -> list[str]:
        """Free the runs whose lease is over, or whose owner is `gone`, for a take-over; park those that crashed
        `poison_after` times in a row. From `suspect_after` crashes on they are due after `suspect_pause`, twice as long
        at each further one. Made to be repeated: whatever is missed is found by the next scan."""
        ...

    def hand_back(self, lease: Lease) -> bool:
        """Give a run up in good order: due at once for another worker, no crash counted."""
        ...


class Steps(Protocol):
    def begin_attempt(
        self,
        lease: Lease,
        seq: int,
        name: str,
        *,
        effect: EffectClass,
        args_json: str,
        attempt: int,
        pending: Pending = NOTHING,
    ) -> dict[int, Step]:
        """The intent: nothing may be sent before this is on the disk. Bears being tried again. Raises CancelAsked."""
        ...

    def record_result(self, lease: Lease, seq: int, attempt: int, result_json: str, *, source: str = "attempt") -> None:
        """Bears being tried again. `source`: attempt, receipt or check."""
        ...

    def record_failure(self, lease: Lease, seq: int, attempt: int, error: RunError, *, afresh: bool) -> None:
        """No attempt is left: the error is raised at the await, now and at every replay. `afresh`: a redelivery grants
        new attempts while this is the last thing recorded."""
        ...

    def retry_later(
        self, lease: Lease, seq: int, attempt: int, error: RunError, due_at: datetime, *, state: StepState
    ) -> None:
        """The attempt failed surely (`retry`) or its outcome is `unknown`; the run hibernates until `due_at`."""
        ...

    def postpone(
        self, lease: Lease, seq: int, attempt: int, error: RunError, due_at: datetime, *, state: StepState
    ) -> None:
        """As `retry_later`, and the run stays where it is: other attempts of it are under way."""
        ...

    def look_later(self, lease: Lease, seq: int, due_at: datetime, *, pending: Pending = NOTHING) -> None:
        """A command that has lost its race, and may still bring a result, is looked at again then. Raises
        CancelAsked."""
        ...

    def add_receipt(self, run_id: str, seq: int, attempt: int, name: str, result_json: str) -> None:
        """A result that came too late. Taken from anybody, once; changes no state."""
        ...

    def receipt(self, run_id: str, seq: int) -> str | None:
        """The result a former holder's attempt delivered late, if any."""
        ...


class Endings(Protocol):
    def hibernate(
        self,
        lease: Lease,
        due_at: datetime | None,
        reason: str,
        *,
        awaits: Sequence[int] = (),
        pending: Pending = NOTHING,
        what: str = "wait",
    ) -> None:
        """Wait until `due_at`, holding nothing; with `awaits`, until the first of those steps is due or has ended."""
        ...

    def redeliver(
        self,
        lease: Lease,
        error: RunError,
        due_at: datetime,
        *,
        waited: bool = False,
        failed_step: int | None = None,
        pending: Pending = NOTHING,
    ) -> None:
        """One delivery is spent; the next comes at `due_at`, held if the run says so. `waited`: waits may be open.
        `failed_step`: the lowest of the steps that failed last, with nothing asked for since; they are done afresh."""
        ...

    def continue_as_new(
        self,
        lease: Lease,
        function: str,
        args_json: str,
        last_seq: int,
        *,
        waited: bool = False,
        pending: Pending = NOTHING,
    ) -> None:
        """The run is due again, with an empty history whose steps are numbered from `last_seq` + 1."""
        ...

    def end(
        self,
        lease: Lease,
        state: RunState,
        *,
        result_json: str | None = None,
        error: RunError | None = None,
        reason: str | None = None,
        unknown_step: int | None = None,
        spends_delivery: bool = False,
        waited: bool = False,
        failed_step: int | None = None,
        pending: Pending = NOTHING,
    ) -> None:
        """The run is over (or parked). Writes its ending into every step that awaits it and makes those runs due.
        `failed_step`, when it has failed: what a resume does afresh."""
        ...


class RunsUnit(Protocol):
    """One transaction."""

    @property
    def now(self) -> datetime: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def places(self) -> Places: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def steps(self) -> Steps: ...

    @property
    def endings(self) -> Endings: ...

    @property
    def waits(self) -> Waits: ...


class RunsDatabase(Protocol):
    """Raises `StoreUnavailable` when a transaction cannot be made for now."""

    @property
    def presence(self) -> Presence | None:
        """None where nothing but a lease tells that a worker is gone."""
        ...

    def write(self, *, urgent: bool = False, durable: bool = True) -> AbstractContextManager[RunsUnit]: ...

    def commit(self, change: Callable[[RunsUnit], T]) -> T:
        """One short change, on the disk when this returns; may share its transaction with those of other threads."""
        ...

    def read(self) -> AbstractContextManager[RunsUnit]: ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each commit of this process that made a run due; returns what ends that."""
        ...
