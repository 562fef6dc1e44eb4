"""What a held run awaits: waits for events, and the races they are part of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, func, select, update

from hermes.errors import StoreError
from hermes.model.event import NewEvent
from hermes.model.run import Lease, RunError
from hermes.model.step import Step, StepKind, StepState
from hermes.ports.pending import NOTHING, NewStep, Pending
from hermes.ports.waits import NewWait
from store.events import oldest_kept, serve
from store.inserting import InsertIgnoring
from store.pairs import lock_pairs
from store.run_values import error_values, step_of
from store.steps import add_step, lose, record_pending
from store.tables.events import WAITS
from store.tables.runs import RUNS, STEPS
from store.timeline import note

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_open_wait = InsertIgnoring(WAITS, "run_id", "seq")
_NAMESPACE = select(RUNS.c.namespace).where(RUNS.c.id == bindparam("b_run"))
_SOME = select(STEPS).where(STEPS.c.run_id == bindparam("b_run"), STEPS.c.seq.in_(bindparam("b_seqs", expanding=True)))
# A command that is due has not won yet.
_EARLIEST = select(func.min(STEPS.c.due_at)).where(
    STEPS.c.run_id == bindparam("b_run"),
    STEPS.c.seq.in_(bindparam("b_seqs", expanding=True)),
    STEPS.c.kind != StepKind.command.value,
)
_TIME_OUT = (
    update(STEPS)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        STEPS.c.seq == bindparam("b_seq"),
        STEPS.c.state == StepState.waiting.value,
    )
    .values(
        state=StepState.failed.value,
        finished_at=bindparam("b_now"),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
    )
)
_FIRED_AFRESH = (
    update(STEPS)
    .where(
        STEPS.c.run_id == bindparam("b_run"),
        STEPS.c.seq == bindparam("b_seq"),
        STEPS.c.state == StepState.retry.value,
    )
    .values(
        state=bindparam("b_state"),
        result=bindparam("b_result"),
        finished_at=bindparam("b_now"),
        error_kind=bindparam("b_error_kind"),
        error_message=bindparam("b_error_message"),
        error_trace=bindparam("b_error_trace"),
    )
)
_CLOSE = delete(WAITS).where(WAITS.c.run_id == bindparam("b_run"), WAITS.c.seq.in_(bindparam("b_seqs", expanding=True)))
_CLEAR = delete(WAITS).where(WAITS.c.run_id == bindparam("b_run"))

TIMED_OUT = "hermes.errors:WaitTimedOut"


class WaitStatements:
    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

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
        uow, run_id = self._uow, lease.run_id
        namespace = self._lock(run_id, waits)
        uow.steps.hold(lease)
        recorded = record_pending(uow, run_id, pending)
        standing = self._steps(run_id, [wait.seq for wait in waits])
        served: list[int] = []
        for wait in waits:
            if race is not None and served:
                break
            if standing[wait.seq].state is not StepState.waiting:
                served.append(wait.seq)  # since the run was leased, somebody has fired
            elif (event := oldest_kept(uow, namespace, wait.name, wait.instance_id)) is not None:
                uow.connection.execute(_CLOSE, {"b_run": run_id, "b_seqs": [wait.seq]})
                serve(uow, event, run_id, wait.seq)
                served.append(wait.seq)
        if race is not None and served:
            recorded[race.seq] = self._won(run_id, race, served[0], lost, waits)
        else:
            self._open_rest(run_id, namespace, [wait for wait in waits if wait.seq not in served], race, awaits)
        recorded |= self._steps(run_id, served)
        sleeps = reason is not None and not served
        if reason is not None and sleeps:
            uow.endings.sleep_until_any(lease, reason, awaits)
        return recorded, sleeps

    def _open_rest(
        self, run_id: str, namespace: str, waits: Sequence[NewWait], race: NewStep | None, awaits: Sequence[int]
    ) -> None:
        uow = self._uow
        for wait in waits:
            others = awaits if race is not None else [wait.seq]
            until: datetime | None = uow.connection.execute(
                _EARLIEST, {"b_run": run_id, "b_seqs": [wait.seq, *others]}
            ).scalar()
            new = _open_wait(
                uow.connection,
                {
                    "run_id": run_id,
                    "seq": wait.seq,
                    "namespace": namespace,
                    "name": wait.name,
                    "instance_id": wait.instance_id,
                    "since": uow.now,
                    "until": until,
                    "race": race is not None,
                },
            )
            if new:
                note(
                    uow,
                    run_id,
                    "wait for event",
                    wait.seq,
                    name=wait.name,
                    instance_id=wait.instance_id,
                    until=until.isoformat() if until else None,
                )

    def close(
        self,
        lease: Lease,
        waits: Sequence[NewWait],
        *,
        race: NewStep | None,
        timed_out: Sequence[int] = (),
        pending: Pending = NOTHING,
    ) -> dict[int, Step]:
        uow, run_id = self._uow, lease.run_id
        self._lock(run_id, waits)
        uow.steps.hold(lease)
        seqs = [wait.seq for wait in waits]
        standing = self._steps(run_id, seqs)
        came = [seq for seq in seqs if seq in standing and standing[seq].state is StepState.done]
        if race is not None and came:
            recorded = record_pending(uow, run_id, replace(pending, lost=()))
            decided = self._won(run_id, race, min(came, key=lambda seq: _when(standing[seq])), pending.lost, waits)
            return {**recorded, **standing, race.seq: decided}
        recorded = record_pending(uow, run_id, pending)
        by_seq = {wait.seq: wait for wait in waits}
        for seq in timed_out:
            self._time_out(run_id, by_seq[seq])
        closed = seqs if race is not None else list(timed_out)
        uow.connection.execute(_CLOSE, {"b_run": run_id, "b_seqs": closed})
        recorded |= self._steps(run_id, seqs)
        if race is not None:
            recorded[race.seq] = self._won(run_id, race, int(race.result_json or 0), pending.lost, ())
        return recorded

    def _won(self, run_id: str, race: NewStep, winner: int, lost: Sequence[int], waits: Sequence[NewWait]) -> Step:
        """Record the winner, and close the waits that did not win."""
        uow = self._uow
        if waits:
            uow.connection.execute(_CLOSE, {"b_run": run_id, "b_seqs": [wait.seq for wait in waits]})
        lose(uow, run_id, [seq for seq in lost if seq != winner])
        step = Step(
            run_id,
            race.seq,
            StepKind.race,
            race.name,
            StepState.done,
            args_json=race.args_json,
            result_json=str(winner),
        )
        if add_step(uow, step):
            note(uow, run_id, "race", race.seq, winner=winner)
            return step
        return self._steps(run_id, [race.seq])[race.seq]  # the transaction is being tried again

    def _time_out(self, run_id: str, wait: NewWait) -> None:
        uow = self._uow
        error = RunError(TIMED_OUT, f"no event {wait.name} came for {wait.instance_id} in time")
        about = {"b_run": run_id, "b_seq": wait.seq, "b_now": uow.now, **error_values(error, "b_")}
        if uow.connection.execute(_TIME_OUT, about).rowcount == 1:
            note(uow, run_id, "event timed out", wait.seq, name=wait.name, instance_id=wait.instance_id)

    def fire(
        self, lease: Lease, seq: int, new: NewEvent, *, max_kept: int, pending: Pending = NOTHING
    ) -> dict[int, Step]:
        uow, run_id = self._uow, lease.run_id
        lock_pairs(uow, new.namespace, [(new.name, new.instance_id)])
        uow.steps.hold(lease)
        recorded = record_pending(uow, run_id, pending)
        fired = uow.events.fire(new, max_kept=max_kept)
        step = Step(run_id, seq, StepKind.fire, new.name, StepState.done, args_json=new.instance_id, result_json="null")
        if self._record_fire(step) and not fired.duplicate:
            kept = fired.kept_until.isoformat() if fired.kept_until else None
            note(
                uow,
                run_id,
                "fire",
                seq,
                name=new.name,
                instance_id=new.instance_id,
                event=fired.id,
                run_id=fired.run_id,
                kept_until=kept,
            )
        return {**recorded, seq: step}

    def fire_failed(
        self, lease: Lease, seq: int, new: NewEvent, error: RunError, *, pending: Pending = NOTHING
    ) -> dict[int, Step]:
        uow, run_id = self._uow, lease.run_id
        uow.steps.hold(lease)
        recorded = record_pending(uow, run_id, pending)
        step = Step(run_id, seq, StepKind.fire, new.name, StepState.failed, args_json=new.instance_id, error=error)
        if self._record_fire(step):
            note(uow, run_id, "failure", seq, error=f"{error.short_kind}: {error.message}")
        return {**recorded, seq: step}

    def _record_fire(self, step: Step) -> bool:
        """False when it stands so already: the transaction is being tried again."""
        uow = self._uow
        about = {
            "b_run": step.run_id,
            "b_seq": step.seq,
            "b_state": step.state.value,
            "b_result": step.result_json,
            "b_now": uow.now,
            **error_values(step.error, "b_"),
        }
        return add_step(uow, step) or uow.connection.execute(_FIRED_AFRESH, about).rowcount == 1

    def clear(self, run_id: str) -> None:
        self._uow.connection.execute(_CLEAR, {"b_run": run_id})

    def _lock(self, run_id: str, waits: Sequence[NewWait]) -> str:
        """Returns the run's namespace, which never changes."""
        uow = self._uow
        namespace: str | None = uow.connection.execute(_NAMESPACE, {"b_run": run_id}).scalar_one_or_none()
        if namespace is None:
            raise StoreError(f"run {run_id} is not there any more")
        lock_pairs(uow, namespace, [(wait.name, wait.instance_id) for wait in waits])
        return namespace

    def _steps(self, run_id: str, seqs: Sequence[int]) -> dict[int, Step]:
        if not seqs:
            return {}
        rows = self._uow.connection.execute(_SOME, {"b_run": run_id, "b_seqs": list(seqs)})
        return {row.seq: step_of(row) for row in rows}


def _when(step: Step) -> tuple[datetime, int]:
    assert step.finished_at is not None  # noqa: S101 - it is done
    return step.finished_at, step.seq
