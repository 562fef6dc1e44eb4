"""Statements about polls. Every change of state is one conditional UPDATE whose row count is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, func, insert, null, or_, select, update

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
from store.tables.polls import OCCURRENCES, POLL_VERSIONS, POLLS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

_RUNNABLE = (PollStatus.active, PollStatus.paused, PollStatus.disabled, PollStatus.off)
"""May be run by hand."""


class PollStatements:
    """Implements `hermes.ports.polls.Polls`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._connection = uow.connection
        self._now = uow.now

    # definitions

    def sync_definitions(self, definitions: Iterable[PollDefinition]) -> PollChanges:
        rows = {row.poll_id: row for row in self._connection.execute(select(POLLS))}
        added: list[str] = []
        edited: list[str] = []
        returned: list[str] = []
        wanted: set[str] = set()
        for new in definitions:
            wanted.add(new.poll_id)
            row = rows.get(new.poll_id)
            if row is None:
                self._keep_version(new)
                self._connection.execute(insert(POLLS).values(poll_id=new.poll_id, **self._fresh(new)))
                added.append(new.poll_id)
                continue
            changes = self._changes(row, new)
            if not changes:
                continue
            self._keep_version(new)
            self._set(new.poll_id, changes)
            (returned if row.status == PollStatus.removed else edited).append(new.poll_id)
        removed = [name for name, row in rows.items() if name not in wanted and row.status != PollStatus.removed]
        for name in removed:
            self._set(
                name, {"status": PollStatus.removed, "next_due_at": None, "next_start_at": None, "asked_at": None}
            )
        return PollChanges(tuple(added), tuple(edited), tuple(removed), tuple(returned))

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

    def _keep_version(self, new: PollDefinition) -> None:
        key = and_(POLL_VERSIONS.c.poll_id == new.poll_id, POLL_VERSIONS.c.definition_version == new.definition_version)
        if self._connection.execute(select(POLL_VERSIONS.c.poll_id).where(key)).first() is None:
            self._connection.execute(
                insert(POLL_VERSIONS).values(
                    poll_id=new.poll_id,
                    definition_version=new.definition_version,
                    condition_version=new.condition_version,
                    definition=new.definition,
                    first_seen_at=self._now,
                )
            )

    def _set(self, poll_id: str, values: dict[str, Any]) -> bool:
        statement = update(POLLS).where(POLLS.c.poll_id == poll_id)
        return self._connection.execute(statement.values(**{"updated_at": self._now, **values})).rowcount == 1

    # leases

    def _may_start(self) -> Any:
        free = or_(POLLS.c.lease_owner.is_(None), POLLS.c.lease_until <= self._now)
        due = and_(POLLS.c.status == PollStatus.active, POLLS.c.next_start_at <= self._now)
        asked = and_(POLLS.c.status.in_(_RUNNABLE), POLLS.c.asked_at.is_not(None))
        return and_(free, or_(due, asked))

    def due_count(self) -> int:
        return int(
            self._connection.execute(select(func.count()).select_from(POLLS).where(self._may_start())).scalar_one()
        )

    def lease_due(
        self, owner: str, length: timedelta, limit: int, wanted: Callable[[str, str], bool]
    ) -> list[PollLease]:
        waiting = (
            select(POLLS)
            .where(self._may_start())
            .order_by(POLLS.c.asked_at.is_(None), POLLS.c.priority, POLLS.c.next_start_at, POLLS.c.poll_id)
            .with_for_update(skip_locked=True)
        )
        until = self._now + length
        leases: list[PollLease] = []
        rows = self._connection.execute(waiting)
        for row in rows:
            if len(leases) >= limit:
                break
            if not wanted(row.poll_id, row.definition_version):
                continue
            taken = self._connection.execute(
                update(POLLS)
                .where(POLLS.c.poll_id == row.poll_id, POLLS.c.fence == row.fence, self._may_start())
                .values(lease_owner=owner, lease_until=until, fence=row.fence + 1, updated_at=self._now)
            )
            if taken.rowcount != 1:
                continue
            by_hand = row.asked_at is not None
            leases.append(
                PollLease(
                    poll_id=row.poll_id,
                    owner=owner,
                    fence=row.fence + 1,
                    until=until,
                    due_at=row.asked_at if by_hand else row.next_due_at,
                    start_at=row.asked_at if by_hand else row.next_start_at,
                    by_hand=by_hand,
                    leased_at=self._now,
                    failure_count=row.failure_count,
                    fatal_count=row.fatal_count,
                    cursor=row.cursor,
                    watermark=row.watermark,
                )
            )
        rows.close()
        return leases

    def _held(self, lease: PollLease) -> Any:
        return and_(POLLS.c.poll_id == lease.poll_id, POLLS.c.lease_owner == lease.owner, POLLS.c.fence == lease.fence)

    def extend(self, lease: PollLease, length: timedelta) -> datetime | None:
        until = self._now + length
        done = self._connection.execute(update(POLLS).where(self._held(lease)).values(lease_until=until))
        return until if done.rowcount == 1 else None

    def postpone(self, lease: PollLease, start_at: datetime) -> bool:
        done = self._connection.execute(
            update(POLLS)
            .where(self._held(lease))
            .values(lease_owner=None, lease_until=None, next_start_at=start_at, updated_at=self._now)
        )
        return done.rowcount == 1

    def finish(self, lease: PollLease, end: OccurrenceEnd) -> bool:
        polls = POLLS.c
        values: dict[str, Any] = {
            "lease_owner": None,
            "lease_until": None,
            "last_run_at": polls.last_run_at if end.skipped else lease.leased_at,
            "next_due_at": end.next_due_at,
            "next_start_at": end.next_start_at,
            "last_note": end.note,
            "occurrence_count": polls.occurrence_count + 1,
            "checked_count": polls.checked_count + end.checked,
            "matched_count": polls.matched_count + end.matched,
            "changed_count": polls.changed_count + end.changed,
            "claimed_count": polls.claimed_count + end.claimed,
            "updated_at": self._now,
        }
        if lease.by_hand:
            # Asked for again while it ran: that wish stays.
            values["asked_at"] = case((polls.asked_at == lease.due_at, null()), else_=polls.asked_at)
        if end.ok and not end.skipped:
            values |= {"last_ok_at": self._now, "failing_since": None, "failure_count": 0, "fatal_count": 0}
            values["last_error"] = None
        elif not end.ok:
            values |= {
                "failing_since": func.coalesce(polls.failing_since, lease.leased_at),
                "failure_count": polls.failure_count + 1,
                "fatal_count": polls.fatal_count + (1 if end.fatal else 0),
                "last_error": end.error,
            }
        if end.disabled_reason is not None:
            values |= {"status": PollStatus.disabled, "disabled_reason": end.disabled_reason}
        if end.cursor is not None:
            values["cursor"] = end.cursor
        if end.watermark is not None:
            values["watermark"] = end.watermark
        done = self._connection.execute(update(POLLS).where(self._held(lease)).values(**values))
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
            .where(POLLS.c.poll_id == poll_id, POLLS.c.status.in_(_RUNNABLE))
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
