"""Statements that only look, across tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Row, Table, and_, func, or_, select, tuple_

from hermes.model.claim import OPEN_STATES, BoardState, ClaimRecord, ClaimState
from hermes.model.event import DEFAULT_NAMESPACE
from hermes.model.run import FINAL, Run, RunKind, RunState
from hermes.model.step import StepKind, StepState
from hermes.ports.survey import (
    OVERDUE_LEASES,
    BoardWrite,
    Pause,
    Receipt,
    RunFilter,
    StuckCard,
    WaitFor,
    WorkLeft,
)
from store.run_values import run_of
from store.tables.claims import BoardLogRow, BoardRow, CardRow
from store.tables.events import WAITS
from store.tables.limits import LIMITS
from store.tables.runs import RECEIPTS, RUNS, STEPS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

CARDS: Table = CardRow.__table__  # type: ignore[attr-defined]
BOARDS: Table = BoardRow.__table__  # type: ignore[attr-defined]
BOARD_LOG: Table = BoardLogRow.__table__  # type: ignore[attr-defined]

_UNDER_WAY = (ClaimState.claiming.value, ClaimState.settling.value, ClaimState.backoff.value)
_FINAL = tuple(state.value for state in FINAL)
_OPEN = (RunState.ready.value, RunState.waiting.value)
_IS_OPEN = RUNS.c.state.in_(_OPEN)
_WAITS_STILL = (StepState.waiting.value, StepState.retry.value, StepState.unknown.value)


class SurveyStatements:
    """Implements `hermes.ports.survey.Survey`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._connection = uow.connection
        self._now = uow.now

    # -- finding

    def find_runs(self, text: str, limit: int = 20) -> Sequence[Run]:
        keys = [text, f"run:{DEFAULT_NAMESPACE}:{text}"]  # as it is stored, and as whoever started it said it
        ways: list[ColumnElement[bool]] = [RUNS.c.id == text, RUNS.c.key.in_(keys)]
        if text.isalnum():
            ways.append(RUNS.c.id.startswith(text.lower(), autoescape=True))
        ways.append(RUNS.c.object_id == text)
        ways += [RUNS.c.object_id.in_(select(CARDS.c.card_id).where(title)) for title in _titled(text)]
        for way in ways:
            query = select(RUNS).where(way).order_by(RUNS.c.created_at.desc(), RUNS.c.id.desc()).limit(limit)
            found = [run_of(row) for row in self._connection.execute(query)]
            if found:
                return found
        return []

    def runs(self, wanted: RunFilter, limit: int, *, oldest: bool = False, after: Run | None = None) -> list[Run]:
        order = tuple_(RUNS.c.created_at, RUNS.c.id)
        query = select(RUNS).where(*self._chosen(wanted)).limit(limit)
        if after is not None:
            last = tuple_(after.created_at, after.id)
            query = query.where(order > last if oldest else order < last)
        columns = (RUNS.c.created_at, RUNS.c.id)
        query = query.order_by(*(column if oldest else column.desc() for column in columns))
        return [run_of(row) for row in self._connection.execute(query)]

    def _chosen(self, wanted: RunFilter) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = []
        if wanted.states:
            conditions.append(RUNS.c.state.in_([state.value for state in wanted.states]))
        if wanted.kinds:
            conditions.append(RUNS.c.kind.in_([kind.value for kind in wanted.kinds]))
        named = ((RUNS.c.poll_id, wanted.poll_id), (RUNS.c.object_id, wanted.object_id))
        for column, value in (*named, (RUNS.c.function, wanted.function)):
            if value is not None:
                conditions.append(column == value)
        if wanted.error is not None:
            texts = (RUNS.c.error_kind, RUNS.c.error_message, RUNS.c.reason)
            conditions.append(or_(*(text.icontains(wanted.error, autoescape=True) for text in texts)))
        if wanted.changed_since is not None:
            conditions.append(RUNS.c.changed_at >= wanted.changed_since)
        if wanted.changed_before is not None:
            conditions.append(RUNS.c.changed_at < wanted.changed_before)
        if wanted.stuck_lease is not None:
            conditions.append(self._stuck(wanted.stuck_lease))
        if wanted.unknown_to is not None:
            conditions += [_IS_OPEN, RUNS.c.due_at <= self._now, RUNS.c.function.not_in(sorted(wanted.unknown_to))]
        return conditions

    def _stuck(self, lease: timedelta) -> ColumnElement[bool]:
        overdue = self._now - OVERDUE_LEASES * lease
        lost = and_(RUNS.c.state == RunState.running.value, RUNS.c.lease_until < self._now - lease)
        late = and_(_IS_OPEN, RUNS.c.held.is_(False), RUNS.c.due_at < overdue)
        asleep = and_(RUNS.c.state == RunState.waiting.value, RUNS.c.held.is_(False), RUNS.c.due_at.is_(None))
        awaited = select(WAITS.c.id).where(WAITS.c.run_id == RUNS.c.id).exists()
        child = RUNS.alias()
        child_lives = (
            select(STEPS.c.seq)
            .join(child, child.c.id == STEPS.c.awaits_run_id)
            .where(
                STEPS.c.run_id == RUNS.c.id,
                STEPS.c.state == StepState.waiting.value,
                child.c.state.not_in(_FINAL),
            )
            .correlate(RUNS)
            .exists()
        )
        claimed = select(CARDS.c.card_id).where(CARDS.c.run_id == RUNS.c.id, CARDS.c.state.in_(OPEN_STATES)).exists()
        held = and_(_IS_OPEN, RUNS.c.held.is_(True), RUNS.c.changed_at < overdue, ~claimed)
        return or_(lost, late, and_(asleep, ~awaited, ~child_lives), held)

    def runs_by_state(self) -> Mapping[RunState, int]:
        query = select(RUNS.c.state, func.count().label("runs")).where(RUNS.c.kind != RunKind.effect.value)
        return {RunState(row.state): row.runs for row in self._connection.execute(query.group_by(RUNS.c.state))}

    def waits_of(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[WaitFor]]:
        found: dict[str, list[WaitFor]] = {}
        for start in range(0, len(run_ids), 500):
            some = run_ids[start : start + 500]
            for row in self._connection.execute(select(WAITS).where(WAITS.c.run_id.in_(some)).order_by(WAITS.c.id)):
                wait = WaitFor(row.seq, "event", row.name, row.instance_id, row.since, row.until)
                found.setdefault(row.run_id, []).append(wait)
            query = select(STEPS).where(STEPS.c.run_id.in_(some), STEPS.c.state.in_(_WAITS_STILL))
            for row in self._connection.execute(query.order_by(STEPS.c.run_id, STEPS.c.seq)):
                if row.kind != StepKind.event:  # one without an open wait is not awaited now
                    found.setdefault(row.run_id, []).append(_wait_of(row))
        return found

    def receipts(self, run_id: str) -> Sequence[Receipt]:
        query = select(RECEIPTS).where(RECEIPTS.c.run_id == run_id).order_by(RECEIPTS.c.seq, RECEIPTS.c.attempt)
        rows = self._connection.execute(query)
        return [Receipt(row.seq, row.attempt, row.name, row.result, row.received_at) for row in rows]

    def find_cards(self, text: str, limit: int = 20) -> Sequence[ClaimRecord]:
        for way in (CARDS.c.card_id == text, *_titled(text)):
            query = select(CARDS).where(way).order_by(CARDS.c.updated_at.desc()).limit(limit)
            found = [_record(row) for row in self._connection.execute(query)]
            if found:
                return found
        return []

    def titles(self, card_ids: Sequence[str]) -> Mapping[str, str]:
        query = select(CARDS.c.card_id, CARDS.c.title).where(CARDS.c.card_id.in_(sorted(set(card_ids))))
        return {row.card_id: row.title for row in self._connection.execute(query)}

    def awaiting(self, run_id: str) -> Sequence[str]:
        query = select(STEPS.c.run_id).where(STEPS.c.awaits_run_id == run_id).distinct()
        return [str(found) for found in self._connection.execute(query).scalars()]

    def card_of_run(self, run_id: str) -> ClaimRecord | None:
        return self._one_card(CARDS.c.run_id == run_id)

    def card(self, card_id: str) -> ClaimRecord | None:
        return self._one_card(CARDS.c.card_id == card_id)

    def _one_card(self, which: ColumnElement[bool]) -> ClaimRecord | None:
        row = self._connection.execute(select(CARDS).where(which).limit(1)).one_or_none()
        return None if row is None else _record(row)

    def board_log(self, card_id: str, run_id: str | None = None, limit: int = 200) -> Sequence[BoardWrite]:
        query = select(BOARD_LOG).where(BOARD_LOG.c.card_id == card_id).order_by(BOARD_LOG.c.id.desc()).limit(limit)
        if run_id is not None:
            query = query.where(BOARD_LOG.c.run_id == run_id)
        names = BoardWrite.__dataclass_fields__
        rows = list(self._connection.execute(query))
        return [BoardWrite(**{name: getattr(row, name) for name in names}) for row in reversed(rows)]

    # -- counting

    def boards(self) -> Sequence[BoardState]:
        names = BoardState.__dataclass_fields__
        rows = self._connection.execute(select(BOARDS).order_by(BOARDS.c.board))
        return [BoardState(**{name: getattr(row, name) for name in names}) for row in rows]

    def cards_by_state(self) -> Mapping[str, Mapping[ClaimState, int]]:
        query = select(CARDS.c.poll_id, CARDS.c.state, func.count().label("cards"))
        counts: dict[str, dict[ClaimState, int]] = {}
        for row in self._connection.execute(query.group_by(CARDS.c.poll_id, CARDS.c.state)):
            counts.setdefault(row.poll_id, {})[ClaimState(row.state)] = row.cards
        return counts

    def stuck_cards(self, due_before: datetime) -> Sequence[StuckCard]:
        query = (
            select(CARDS)
            .where(
                CARDS.c.due_at < due_before,
                or_(CARDS.c.held_until.is_(None), CARDS.c.held_until <= self._now),
            )
            .order_by(CARDS.c.due_at)
            .limit(100)
        )
        rows = self._connection.execute(query)
        return [StuckCard(_record(row), row.due_at, row.failures, row.unknown_until) for row in rows]

    def pauses(self) -> Sequence[Pause]:
        rows = self._connection.execute(select(LIMITS).where(LIMITS.c.paused_until > self._now))
        return [Pause(row.credential, row.paused_until, row.pause_reason or "") for row in rows]

    def count_runs(self, state: str) -> int:
        return self._count(RUNS, RUNS.c.state == state)

    def ended_since(self, instant: datetime) -> Sequence[Run]:
        query = (
            select(RUNS)
            .where(RUNS.c.finished_at >= instant, RUNS.c.parent_run_id.is_(None), RUNS.c.state.in_(_FINAL))
            .order_by(RUNS.c.finished_at)
            .limit(1000)
        )
        return [run_of(row) for row in self._connection.execute(query)]

    def work_left(self, owner: str, functions: Collection[str], until: datetime) -> WorkLeft:
        over = select(RUNS.c.id).where(RUNS.c.id == CARDS.c.run_id, RUNS.c.state.in_(_FINAL)).exists()
        under_way = or_(CARDS.c.state.in_(_UNDER_WAY), and_(CARDS.c.state == ClaimState.claimed.value, over))
        writable = or_(CARDS.c.unknown_until.is_(None), CARDS.c.unknown_until <= until)
        waiting = (
            select(CARDS.c.poll_id, func.count().label("cards"))
            .where(CARDS.c.state == ClaimState.candidate.value)
            .group_by(CARDS.c.poll_id)
        )
        newest = [
            at for column in (RUNS.c.changed_at, CARDS.c.updated_at) if (at := self._scalar(select(func.max(column))))
        ]
        return WorkLeft(
            running=self._count(RUNS, RUNS.c.state == RunState.running.value, RUNS.c.owner == owner),
            runs_due=self._count(
                RUNS,
                RUNS.c.state.in_(_OPEN),
                RUNS.c.held.is_(False),
                RUNS.c.due_at <= until,
                RUNS.c.function.in_(sorted(functions)),
            ),
            cards_due=self._count(CARDS, CARDS.c.due_at <= until, under_way, writable),
            candidates={row.poll_id: row.cards for row in self._connection.execute(waiting)},
            changed_at=max(newest, default=None),
        )

    def _count(self, table: Table, *conditions: ColumnElement[bool]) -> int:
        return int(self._connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

    def _scalar(self, query: Any) -> Any:
        return self._connection.execute(query).scalar_one()


def _titled(text: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The whole title, then part of it; whatever the case."""
    title = func.lower(CARDS.c.title)
    return title == text.lower(), title.contains(text.lower(), autoescape=True)


def _wait_of(row: Row[Any]) -> WaitFor:
    what = {StepKind.delay: "delay", StepKind.child: "run"}.get(StepKind(row.kind), "attempt")
    return WaitFor(row.seq, what, row.name, row.awaits_run_id, row.started_at, row.due_at)


def _record(row: Row[Any]) -> ClaimRecord:
    names = [name for name in ClaimRecord.__dataclass_fields__ if name != "state"]
    return ClaimRecord(state=ClaimState(row.state), **{name: getattr(row, name) for name in names})
