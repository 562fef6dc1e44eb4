"""Removing what is old. Each method is one short transaction over at most so many rows.

A run is marked in the transaction that takes the first of its rows, and marked as gone in the one that takes the last:
nobody resumes half a run, and what an interruption leaves is found again by the mark. Key and ending stay, so that
whoever asks for the key again gets that ending and starts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    case,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from hermes.model.claim import ClaimState
from hermes.model.run import RunState
from hermes.ports.retention import Batch, Cursor, Cutoffs, OldRun, Removed
from store.inserting import InsertIgnoring
from store.tables.claims import BoardLogRow, CardRow
from store.tables.events import EVENTS, WAITS
from store.tables.polls import OCCURRENCES
from store.tables.runs import PLACES, RECEIPTS, RUNS, STEPS, TIMELINE

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

CARDS: Table = CardRow.__table__  # type: ignore[attr-defined]
BOARD_LOG: Table = BoardLogRow.__table__  # type: ignore[attr-defined]

PAGE = 100
"""Runs that are looked at in one transaction."""
SHORT = 500
"""Characters of a result, an error or a reason that stay with the key: a receipt's number, a sentence."""
TURN = "hermes:retention"
"""A group of one place, and a poll's name that no file can have."""
MAY_LAND = timedelta(days=1)
"""Far more than any wait-out: a write sent so long before a card was settled explains nothing on it."""

# Spelt out, not bound: only so does the partial index serve it.
_NOT_GONE = RUNS.c.details != literal_column("'gone'")
_WHOLE = RUNS.c.details == "whole"
_DONE = RUNS.c.state.in_([RunState.succeeded.value, RunState.refused.value])
_MAY_GO_ON = (RunState.failed, RunState.parked, RunState.cancelled)
_STOPPED = RUNS.c.state.in_([state.value for state in _MAY_GO_ON])
_LEFT = (ClaimState.done.value, ClaimState.gone.value)
_add_occurrence = InsertIgnoring(OCCURRENCES, "poll_id", "due_at")
_add_place = InsertIgnoring(PLACES, "place_group", "slot")

_TEXTS: dict[Table, tuple[Any, ...]] = {
    STEPS: (STEPS.c.args, STEPS.c.result, STEPS.c.error_message, STEPS.c.error_trace),
    TIMELINE: (TIMELINE.c.detail,),
    RECEIPTS: (RECEIPTS.c.result,),
}
_LONG_TEXTS = (RUNS.c.result, RUNS.c.error_message, RUNS.c.reason)
_OWN_TEXT = (
    func.length(RUNS.c.args)
    + func.coalesce(func.length(RUNS.c.error_trace), 0)
    + sum((case((func.length(text) > SHORT, func.length(text)), else_=0) for text in _LONG_TEXTS), start=literal(0))
)


@dataclass(slots=True)
class _Size:
    rows: Counter[str]
    text: int

    @property
    def total(self) -> int:
        return self.rows.total()


class RetentionStatements:
    """Implements `hermes.ports.retention.Retention`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._execute = uow.connection.execute

    # -- runs

    def old_runs(self, cutoffs: Cutoffs, after: Cursor | None) -> Sequence[OldRun]:
        newest = max(cutoffs.runs, cutoffs.stopped)
        return self._page(after, RUNS.c.finished_at < newest, _old(cutoffs))

    def old_timelines(self, cutoffs: Cutoffs, after: Cursor | None) -> Sequence[OldRun]:
        has_one = select(TIMELINE.c.id).where(TIMELINE.c.run_id == RUNS.c.id).exists()
        return self._page(after, RUNS.c.finished_at < cutoffs.timelines, _WHOLE, _DONE, has_one)

    def _page(self, after: Cursor | None, *conditions: ColumnElement[bool]) -> Sequence[OldRun]:
        query = select(RUNS.c.id, RUNS.c.state, RUNS.c.finished_at, RUNS.c.details, _OWN_TEXT)
        query = query.where(RUNS.c.finished_at.is_not(None), _NOT_GONE, *conditions).limit(PAGE)
        if after is not None:
            query = query.where(tuple_(RUNS.c.finished_at, RUNS.c.id) < tuple_(*after))
        rows = self._execute(query.order_by(RUNS.c.finished_at.desc(), RUNS.c.id.desc()))
        return [OldRun(run, RunState(state), at, details, int(text)) for run, state, at, details, text in rows]

    def forget_runs(
        self, page: Sequence[OldRun], cutoffs: Cutoffs, rows: int, *, look: bool = False, going: set[str]
    ) -> Batch:
        free = self._free(page, cutoffs.stopped, going)
        sizes = self._sizes([run.id for run in free], STEPS, TIMELINE, RECEIPTS)
        removed = Removed()
        if look:
            for run in free:
                _count_in(removed, run, sizes[run.id])
            going.update(self._awaiting([run.id for run in free]))
            return Batch(removed, ())
        fitting, left = _fitting(free, sizes, rows)
        rest = () if left is None else page[page.index(left) :]
        if not fitting and left is not None:
            begun = self._forget_part(left, rows, removed)
            return Batch(removed, [replace(left, details="going"), *rest[1:]] if begun else rest[1:])
        marked = self._mark(fitting, "gone")
        for table in (TIMELINE, RECEIPTS, STEPS):
            self._execute(delete(table).where(table.c.run_id.in_(marked)))
        for run in fitting:
            if run.id in marked:
                _count_in(removed, run, sizes[run.id])
        return Batch(removed, rest)

    def _free(self, page: Sequence[OldRun], stopped_before: datetime, going: set[str]) -> list[OldRun]:
        ids = [run.id for run in page]
        awaited_by: dict[str, set[str]] = {}
        awaits = select(STEPS.c.awaits_run_id, STEPS.c.run_id).where(STEPS.c.awaits_run_id.in_(ids)).distinct()
        for child, parent in self._execute(awaits):
            awaited_by.setdefault(child, set()).add(parent)
        kept = self._awaiting_who_lives([run.id for run in page if run.state in _MAY_GO_ON], stopped_before)
        cards = self._execute(select(CARDS.c.run_id, CARDS.c.state).where(CARDS.c.run_id.in_(ids)))
        parked = {run.id for run in page if run.state is RunState.parked}
        # A parked run goes on under its key when its card is moved back to Todo.
        kept |= {run_id for run_id, state in cards if state not in _LEFT or run_id in parked}
        free: dict[str, OldRun] = {}
        for run in page:
            wanted = awaited_by.get(run.id, set()) - going - free.keys()
            if run.details == "going" or not (wanted or run.id in kept):
                free[run.id] = run
        return list(free.values())

    def _awaiting_who_lives(self, ids: Sequence[str], stopped_before: datetime) -> set[str]:
        child = RUNS.alias()
        lives = or_(child.c.finished_at.is_(None), child.c.finished_at >= stopped_before)
        query = select(STEPS.c.run_id).join(child, child.c.id == STEPS.c.awaits_run_id)
        return set(self._execute(query.where(STEPS.c.run_id.in_(ids), lives).distinct()).scalars())

    def _awaiting(self, ids: Sequence[str]) -> set[str]:
        query = select(STEPS.c.run_id).where(STEPS.c.run_id.in_(ids), STEPS.c.awaits_run_id.is_not(None))
        return set(self._execute(query.distinct()).scalars())

    def _mark(self, runs: Sequence[OldRun], details: str) -> set[str]:
        """Those that are still as they were seen: nobody has resumed them since."""
        if not runs:
            return set()
        newest = max(run.finished_at for run in runs)  # one that has ended again since has done so after it
        marked = (
            update(RUNS)
            .where(RUNS.c.id.in_([run.id for run in runs]), RUNS.c.finished_at <= newest, RUNS.c.details != "gone")
            .values(
                details=details,
                args="{}",
                result=case((func.length(RUNS.c.result) <= SHORT, RUNS.c.result), else_=None),
                error_message=func.substr(RUNS.c.error_message, 1, SHORT),
                error_trace=None,
                reason=func.substr(RUNS.c.reason, 1, SHORT),
            )
            .returning(RUNS.c.id)
        )
        return set(self._execute(marked).scalars())

    def _forget_part(self, run: OldRun, rows: int, removed: Removed) -> bool:
        """Of a run with more rows than go in one transaction. False: it goes on again."""
        if not self._mark([run], "going"):
            return False
        _count_in(removed, run, _Size(Counter(), 0))
        for table, key in ((TIMELINE, TIMELINE.c.id), (STEPS, STEPS.c.seq), (RECEIPTS, RECEIPTS.c.seq)):
            some = select(key).where(table.c.run_id == run.id).order_by(key).limit(rows)
            gone = self._execute(delete(table).where(table.c.run_id == run.id, key.in_(some))).rowcount
            removed.rows[table.name] += gone
            rows -= gone
            if rows <= 0:
                break
        return True

    def forget_timelines(
        self, page: Sequence[OldRun], cutoffs: Cutoffs, rows: int, *, look: bool = False, going: set[str]
    ) -> Batch:
        if look:
            old = [run for run in page if run.finished_at < cutoffs.runs]
            counted = self._free(old, cutoffs.stopped, going)
            page = [run for run in page if run not in counted]
        sizes = self._sizes([run.id for run in page], TIMELINE)
        fitting, left = (page, None) if look else _fitting(page, sizes, rows)
        removed = Removed()
        if not fitting and left is not None:
            some = select(TIMELINE.c.id).where(TIMELINE.c.run_id == left.id).order_by(TIMELINE.c.id).limit(rows)
            removed.rows["timeline"] += self._execute(delete(TIMELINE).where(TIMELINE.c.id.in_(some))).rowcount
            return Batch(removed, page)
        for run in fitting:
            removed.rows.update(sizes[run.id].rows)
            removed.text += sizes[run.id].text
        if not look:
            self._execute(delete(TIMELINE).where(TIMELINE.c.run_id.in_([run.id for run in fitting])))
        return Batch(removed, page[len(fitting) :])

    def _sizes(self, ids: Sequence[str], *tables: Table) -> dict[str, _Size]:
        found = {run_id: _Size(Counter(), 0) for run_id in ids}
        for table in tables:
            texts = sum((func.coalesce(func.sum(func.length(text)), 0) for text in _TEXTS[table]), start=literal(0))
            query = select(table.c.run_id, func.count().label("rows"), texts.label("text"))
            for row in self._execute(query.where(table.c.run_id.in_(ids)).group_by(table.c.run_id)):
                found[row.run_id].rows[table.name] = row.rows
                found[row.run_id].text += int(row.text)
        return found

    def forget_keys(
        self, before: datetime, cutoffs: Cutoffs, after: Cursor | None, rows: int, *, look: bool = False
    ) -> tuple[Removed, Cursor | None]:
        query = select(RUNS.c.id, RUNS.c.created_at).where(
            RUNS.c.created_at < before, RUNS.c.finished_at < before, self._gone(cutoffs, look)
        )
        if after is not None:
            query = query.where(tuple_(RUNS.c.created_at, RUNS.c.id) > tuple_(*after))
        page = list(self._execute(query.order_by(RUNS.c.created_at, RUNS.c.id).limit(rows)))
        if not page:
            return Removed(), None
        ids = [run.id for run in page]
        kept = set(self._execute(select(CARDS.c.run_id).where(CARDS.c.run_id.in_(ids))).scalars())
        kept |= set(self._execute(select(STEPS.c.awaits_run_id).where(STEPS.c.awaits_run_id.in_(ids))).scalars())
        free = [run_id for run_id in ids if run_id not in kept]
        if not look:
            for table in (TIMELINE, RECEIPTS):  # of a worker that was away for very long
                self._execute(delete(table).where(table.c.run_id.in_(free)))
            self._execute(delete(RUNS).where(RUNS.c.id.in_(free)))
        return Removed(Counter(keys=len(free))), (page[-1].created_at, page[-1].id)

    # -- the rest

    def _gone(self, cutoffs: Cutoffs, look: bool) -> ColumnElement[bool]:
        """Or will be: but for the few old ones that others keep, which a look takes for gone."""
        gone = RUNS.c.details == "gone"
        return or_(gone, _old(cutoffs)) if look else gone

    def forget_occurrences(self, before: datetime, rows: int, *, look: bool = False) -> Removed:
        old = OCCURRENCES.c.finished_at < before
        if look:
            return Removed(Counter(occurrences=self._count(OCCURRENCES, old)))
        query = select(OCCURRENCES.c.poll_id, OCCURRENCES.c.due_at).where(old)
        found = self._execute(query.order_by(OCCURRENCES.c.finished_at).limit(rows)).all()
        keys = [tuple(row) for row in found]
        if keys:
            self._execute(delete(OCCURRENCES).where(tuple_(OCCURRENCES.c.poll_id, OCCURRENCES.c.due_at).in_(keys)))
        return Removed(Counter(occurrences=len(keys)))

    def forget_board_log(self, cutoffs: Cutoffs, after: int, rows: int, *, look: bool = False) -> tuple[Removed, int]:
        log = BOARD_LOG.c
        page = list(self._execute(select(log.id).where(log.id > after).order_by(log.id).limit(rows)).scalars())
        if not page:
            return Removed(), 0
        answered = log.outcome.in_(["applied", "not_applied"])
        query = (
            select(log.id, log.sent_at, CARDS.c.settled_at, answered.label("answered"))
            .join(CARDS, and_(CARDS.c.board == log.board, CARDS.c.card_id == log.card_id))
            .join(RUNS, RUNS.c.id == log.run_id, isouter=True)
            .where(
                log.id.in_(page),
                log.sent_at < cutoffs.runs,
                CARDS.c.state.in_(_LEFT),
                or_(RUNS.c.id.is_(None), self._gone(cutoffs, look)),
            )
        )
        free = [
            row.id
            for row in self._execute(query)
            if row.answered or (row.settled_at is not None and row.sent_at < row.settled_at - MAY_LAND)
        ]
        if free and not look:
            self._execute(delete(BOARD_LOG).where(log.id.in_(free)))
        return Removed(Counter(board_log=len(free))), page[-1]

    def forget_events(self, rows: int, *, look: bool = False) -> Removed:
        if not look:
            return Removed(Counter(events=self._uow.events.prune(rows)))
        same = (WAITS.c.namespace == EVENTS.c.namespace, WAITS.c.name == EVENTS.c.name)
        waited_for = select(WAITS.c.id).where(*same, WAITS.c.instance_id == EVENTS.c.instance_id).exists()
        over = (EVENTS.c.expires_at <= self._uow.now, or_(EVENTS.c.delivered_at.is_not(None), ~waited_for))
        return Removed(Counter(events=self._count(EVENTS, *over)))

    def _count(self, table: Table, *conditions: ColumnElement[bool]) -> int:
        return int(self._execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

    # -- whose turn it is

    def take_turn(self, owner: str, until: datetime) -> bool:
        _add_place(self._uow.connection, {"place_group": TURN, "slot": 0})
        return self._uow.places.take_place(TURN, owner, until)

    def end_turn(self, owner: str) -> None:
        mine = (PLACES.c.place_group == TURN, PLACES.c.run_id == owner)
        self._execute(update(PLACES).where(*mine).values(run_id=None, until=None))

    def done(self, due_at: datetime) -> bool:
        return self._count(OCCURRENCES, OCCURRENCES.c.poll_id == TURN, OCCURRENCES.c.due_at == due_at) > 0

    def note_done(self, due_at: datetime, started_at: datetime, owner: str, note: str) -> None:
        _add_occurrence(
            self._uow.connection,
            {
                "poll_id": TURN,
                "due_at": due_at,
                "state": "ok",
                "by_hand": False,
                "started_at": started_at,
                "finished_at": self._uow.now,
                "attempts": 1,
                "checked": 0,
                "matched": 0,
                "changed": 0,
                "claimed": 0,
                "note": note,
                "definition_version": "",
                "condition_version": "",
                "owner": owner,
                "fence": 0,
            },
        )


def _old(cutoffs: Cutoffs) -> ColumnElement[bool]:
    return or_(
        and_(_DONE, RUNS.c.finished_at < cutoffs.runs),
        and_(_STOPPED, RUNS.c.finished_at < cutoffs.stopped),
        RUNS.c.details == "going",
    )


def _count_in(removed: Removed, run: OldRun, size: _Size) -> None:
    if run.details == "whole":
        removed.rows["runs"] += 1
        removed.text += run.text
    removed.rows.update(size.rows)
    removed.text += size.text


def _fitting(runs: Sequence[OldRun], sizes: dict[str, _Size], rows: int) -> tuple[Sequence[OldRun], OldRun | None]:
    """The first of them whose rows go in one transaction, and the one that does not."""
    for count, run in enumerate(runs):
        rows -= sizes[run.id].total
        if rows < 0:
            return runs[:count], run
    return runs, None
