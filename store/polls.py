"""Statements about polls. Every change of state is one conditional UPDATE whose row count is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, insert, select, update

from hermes.model.json import JSON
from hermes.ports.polls import (
    Occurrence,
    OccurrenceEnd,
    Poll,
    PollChanges,
    PollDefinition,
    PollLease,
    PollStatus,
)
from store.inserting import InsertIgnoring
from store.poll_leasing import DUE_COUNT, EXTEND, LEASE, POSTPONE, RUNNABLE, WAITING, finish_statement, giving
from store.tables.polls import OCCURRENCES, POLL_VERSIONS, POLLS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


_add_poll = InsertIgnoring(POLLS, "poll_id")
_add_version = InsertIgnoring(POLL_VERSIONS, "poll_id", "definition_version")


def _ids(definitions: list[PollDefinition]) -> tuple[str, ...]:
    return tuple(new.poll_id for new in definitions)


def _held(lease: PollLease) -> dict[str, Any]:
    return giving(held_poll=lease.poll_id, held_owner=lease.owner, held_fence=lease.fence)


def _lease(row: Any, owner: str, until: datetime, now: datetime) -> PollLease:
    by_hand = row.asked_at is not None
    return PollLease(
        poll_id=row.poll_id,
        owner=owner,
        fence=row.fence + 1,
        until=until,
        due_at=row.asked_at if by_hand else row.next_due_at,
        start_at=row.asked_at if by_hand else row.next_start_at,
        by_hand=by_hand,
        leased_at=now,
        failure_count=row.failure_count,
        fatal_count=row.fatal_count,
        cursor=row.cursor,
        watermark=row.watermark,
    )


class PollStatements:
    """Implements `hermes.ports.polls.Polls`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._connection = uow.connection
        self._now = uow.now

    # definitions

    def sync_definitions(self, definitions: Iterable[PollDefinition]) -> PollChanges:
        rows = {row.poll_id: row for row in self._connection.execute(select(POLLS))}
        wanted: dict[str, PollDefinition] = {new.poll_id: new for new in definitions}
        added = [new for new in wanted.values() if new.poll_id not in rows]
        edited: list[PollDefinition] = []
        returned: list[PollDefinition] = []
        for new in wanted.values():
            row = rows.get(new.poll_id)
            if row is not None and (changes := self._changes(row, new)):
                self._set(new.poll_id, changes)
                (returned if row.status == PollStatus.removed else edited).append(new)
        # Processes that start at the same moment add the same ones.
        added = [new for new in added if _add_poll(self._connection, {"poll_id": new.poll_id, **self._fresh(new)})]
        self._keep_versions([*added, *edited, *returned])
        removed = [name for name, row in rows.items() if name not in wanted and row.status != PollStatus.removed]
        for name in removed:
            self._set(
                name, {"status": PollStatus.removed, "next_due_at": None, "next_start_at": None, "asked_at": None}
            )
        return PollChanges(_ids(added), _ids(edited), tuple(removed), _ids(returned))

    def _fresh(self, new: PollDefinition) -> dict[str, Any]:
        return {
            "user_id": new.user_id,
            "workspace_id": new.workspace_id,
            "priority": new.priority,
            "status": PollStatus.active if new.enabled else PollStatus.off,
            "definition_version": new.definition_version,
            "condition_version": new.condition_version,
            "schedule_version": new.schedule_version,
            "next_due_at": new.first_due_at,
            "next_start_at": new.first_start_at,
            "updated_at": self._now,
        }

    def _changes(self, row: Any, new: PollDefinition) -> dict[str, Any]:
        """What an edited file changes in a row; empty when nothing was edited."""
        same_schedule = row.schedule_version == new.schedule_version
        if row.status != PollStatus.removed and row.definition_version == new.definition_version and same_schedule:
            return {}
        changes = self._fresh(new)
        status = PollStatus(row.status)
        if new.enabled and status is PollStatus.paused:
            changes["status"] = PollStatus.paused
        if same_schedule and row.next_due_at is not None:
            del changes["next_due_at"], changes["next_start_at"]
        # The edit may be the cure: a failing poll is tried again at once, and starts counting afresh.
        changes.update(disabled_reason=None, fatal_count=0)
        if row.failing_since is not None:
            changes.update(next_due_at=new.first_due_at, next_start_at=new.first_start_at)
        return changes

    def _keep_versions(self, definitions: list[PollDefinition]) -> None:
        if not definitions:
            return
        known = select(POLL_VERSIONS.c.poll_id, POLL_VERSIONS.c.definition_version)
        kept = {(row.poll_id, row.definition_version) for row in self._connection.execute(known)}
        versions = [
            {
                "poll_id": new.poll_id,
                "definition_version": new.definition_version,
                "condition_version": new.condition_version,
                "definition": new.definition,
                "first_seen_at": self._now,
            }
            for new in definitions
            if (new.poll_id, new.definition_version) not in kept
        ]
        for version in versions:
            _add_version(self._connection, version)

    def _set(self, poll_id: str, values: dict[str, Any]) -> bool:
        statement = update(POLLS).where(POLLS.c.poll_id == poll_id)
        return self._connection.execute(statement.values(**{"updated_at": self._now, **values})).rowcount == 1

    # leases

    def due_count(self) -> int:
        return int(self._connection.execute(DUE_COUNT, giving(now=self._now)).scalar_one())

    def lease_due(
        self, owner: str, length: timedelta, limit: int, wanted: Callable[[str, str], bool]
    ) -> list[PollLease]:
        until = self._now + length
        leases: list[PollLease] = []
        passed_over = 0
        while len(leases) < limit:
            size = limit - len(leases)
            page = giving(now=self._now, size=size, passed_over=passed_over)
            rows = self._connection.execute(WAITING, page).all()
            for row in rows:
                if not wanted(row.poll_id, row.definition_version):
                    passed_over += 1
                    continue
                lease = giving(
                    held_poll=row.poll_id,
                    held_fence=row.fence,
                    fence=row.fence + 1,
                    owner=owner,
                    until=until,
                    now=self._now,
                )
                if self._connection.execute(LEASE, lease).rowcount == 1:
                    leases.append(_lease(row, owner, until, self._now))
            if len(rows) < size:
                break
        return leases

    def extend(self, lease: PollLease, length: timedelta) -> datetime | None:
        until = self._now + length
        done = self._connection.execute(EXTEND, {**_held(lease), **giving(until=until)})
        return until if done.rowcount == 1 else None

    def postpone(self, lease: PollLease, start_at: datetime) -> bool:
        done = self._connection.execute(POSTPONE, {**_held(lease), **giving(start_at=start_at, now=self._now)})
        return done.rowcount == 1

    def finish(self, lease: PollLease, end: OccurrenceEnd) -> bool:
        statement, names = finish_statement(
            ok=end.ok,
            skipped=end.skipped,
            by_hand=lease.by_hand,
            disabled=end.disabled_reason is not None,
            cursor=end.cursor is not None,
            watermark=end.watermark is not None,
        )
        values = _held(lease) | giving(
            now=self._now,
            leased_at=lease.leased_at,
            due_at=lease.due_at,
            next_due_at=end.next_due_at,
            next_start_at=end.next_start_at,
            note=end.note,
            error=end.error,
            fatal=int(end.fatal),
            disabled_reason=end.disabled_reason,
            cursor=end.cursor,
            watermark=end.watermark,
            checked=end.checked,
            matched=end.matched,
            changed=end.changed,
            claimed=end.claimed,
        )
        done = self._connection.execute(statement, {name: values[name] for name in names})
        if done.rowcount != 1:
            return False
        if end.record:
            self._record(lease, end)
        return True

    def _record(self, lease: PollLease, end: OccurrenceEnd) -> None:
        key = and_(OCCURRENCES.c.poll_id == lease.poll_id, OCCURRENCES.c.due_at == lease.due_at)
        values = {
            "state": "skipped" if end.skipped else "ok" if end.ok else "failed",
            "by_hand": lease.by_hand,
            "finished_at": self._now,
            "checked": end.checked,
            "matched": end.matched,
            "changed": end.changed,
            "claimed": end.claimed,
            "error": end.error,
            "note": end.note,
            "owner": lease.owner,
            "fence": lease.fence,
        }
        again = update(OCCURRENCES).where(key).values(attempts=OCCURRENCES.c.attempts + 1, **values)
        if self._connection.execute(again).rowcount == 1:
            return
        versions = self._connection.execute(
            select(POLLS.c.definition_version, POLLS.c.condition_version).where(POLLS.c.poll_id == lease.poll_id)
        ).one()
        self._connection.execute(
            insert(OCCURRENCES).values(
                poll_id=lease.poll_id,
                due_at=lease.due_at,
                started_at=lease.leased_at,
                definition_version=versions.definition_version,
                condition_version=versions.condition_version,
                attempts=1,
                **values,
            )
        )

    # people

    def run_now(self, poll_id: str) -> bool:
        done = self._connection.execute(
            update(POLLS)
            .where(POLLS.c.poll_id == poll_id, POLLS.c.status.in_(RUNNABLE))
            .values(asked_at=self._now, updated_at=self._now)
        )
        return done.rowcount == 1

    def pause(self, poll_id: str) -> bool:
        done = self._connection.execute(
            update(POLLS)
            .where(POLLS.c.poll_id == poll_id, POLLS.c.status.in_((PollStatus.active, PollStatus.disabled)))
            .values(status=PollStatus.paused, disabled_reason=None, updated_at=self._now)
        )
        return done.rowcount == 1

    def resume(self, poll_id: str) -> bool:
        done = self._connection.execute(
            update(POLLS)
            .where(POLLS.c.poll_id == poll_id, POLLS.c.status.in_((PollStatus.paused, PollStatus.disabled)))
            .values(
                status=PollStatus.active,
                disabled_reason=None,
                failure_count=0,
                fatal_count=0,
                next_due_at=self._now,
                next_start_at=self._now,
                updated_at=self._now,
            )
        )
        return done.rowcount == 1

    # reading

    def get(self, poll_id: str) -> Poll | None:
        row = self._connection.execute(select(POLLS).where(POLLS.c.poll_id == poll_id)).first()
        return None if row is None else _poll(row)

    def all(self, *, removed: bool = False) -> list[Poll]:
        statement = select(POLLS).order_by(POLLS.c.poll_id)
        if not removed:
            statement = statement.where(POLLS.c.status != PollStatus.removed)
        return [_poll(row) for row in self._connection.execute(statement)]

    def definition(self, poll_id: str, version: str) -> dict[str, JSON] | None:
        statement = select(POLL_VERSIONS.c.definition).where(
            POLL_VERSIONS.c.poll_id == poll_id, POLL_VERSIONS.c.definition_version == version
        )
        found: dict[str, JSON] | None = self._connection.execute(statement).scalar_one_or_none()
        return found

    def occurrences(self, poll_id: str, limit: int = 20) -> list[Occurrence]:
        statement = (
            select(OCCURRENCES)
            .where(OCCURRENCES.c.poll_id == poll_id)
            .order_by(OCCURRENCES.c.finished_at.desc(), OCCURRENCES.c.due_at.desc())
            .limit(limit)
        )
        return [_occurrence(row) for row in self._connection.execute(statement)]


def _poll(row: Any) -> Poll:
    names = [name for name in Poll.__dataclass_fields__ if name != "status"]
    return Poll(status=PollStatus(row.status), **{name: getattr(row, name) for name in names})


def _occurrence(row: Any) -> Occurrence:
    return Occurrence(**{name: getattr(row, name) for name in Occurrence.__dataclass_fields__})
