"""Statements on object leases, the board log and the boards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, case, func, insert, or_, select, update
from sqlmodel import col

from hermes.model.card import Card
from hermes.model.claim import OPEN_STATES, BoardState, CardHold, ClaimRecord, ClaimState, LoggedWrite, WriteKind
from hermes.model.json import JSON
from hermes.ports.claims import StaleHold
from store.inserting import InsertIgnoring
from store.tables.claims import BoardLogRow, BoardRow, CardRow

_add_board = InsertIgnoring(BoardRow.__table__, "board")  # type: ignore[attr-defined]
_add_card = InsertIgnoring(CardRow.__table__, "board", "card_id")  # type: ignore[attr-defined]
CLAIMABLE = (ClaimState.idle, ClaimState.candidate)


class ClaimStatements:
    def __init__(self, connection: Connection, now: datetime) -> None:
        self._connection = connection
        self._now = now

    # -- boards

    def board(self, board: str) -> BoardState:
        row = self._connection.execute(select(*_columns(BoardRow)).where(col(BoardRow.board) == board)).one_or_none()
        if row is None:
            return BoardState(board, "", None, None, None, None, None)
        return BoardState(
            board, row.name, row.alone_since, row.queried_at, row.answered_at, row.stopped_reason, row.problem
        )

    def note_board(self, board: str, **changes: Any) -> None:
        changed = self._connection.execute(update(BoardRow).where(col(BoardRow.board) == board).values(**changes))
        if changed.rowcount == 0 and not _add_board(self._connection, {"board": board, "name": "", **changes}):
            self.note_board(board, **changes)  # another process made the row at this moment

    # -- what queries say

    def records(self, board: str, card_ids: Sequence[str]) -> dict[str, CardHold]:
        found: dict[str, CardHold] = {}
        for start in range(0, len(card_ids), 500):
            rows = self._connection.execute(
                select(*_columns(CardRow)).where(
                    col(CardRow.board) == board, col(CardRow.card_id).in_(card_ids[start : start + 500])
                )
            )
            found |= {row.card_id: _hold(row) for row in rows}
        return found

    def offer(
        self,
        board: str,
        poll_id: str,
        card: Card,
        snapshot: Mapping[str, JSON],
        hint_at: datetime,
        *,
        position: int = 0,
    ) -> bool:
        seen = _seen(card, snapshot) | {
            "poll_id": poll_id,
            "state": ClaimState.candidate,
            "hint_at": hint_at,
            "position": position,
            "updated_at": self._now,
        }
        changed = self._connection.execute(
            update(CardRow).where(*_is(board, card.id), col(CardRow.state).in_(CLAIMABLE)).values(**seen)
        )
        if changed.rowcount == 1:
            return True
        known = self._connection.execute(select(col(CardRow.state)).where(*_is(board, card.id))).one_or_none()
        if known is not None:
            return False
        # False when another process, which asked at the same moment, has just offered it.
        return _add_card(self._connection, {"board": board, "card_id": card.id, **_fresh(), **seen})

    def offer_again(self, board: str, card_ids: Sequence[str], hint_at: datetime) -> None:
        for start in range(0, len(card_ids), 500):
            self._connection.execute(
                update(CardRow)
                .where(
                    col(CardRow.board) == board,
                    col(CardRow.card_id).in_(card_ids[start : start + 500]),
                    col(CardRow.state) == ClaimState.candidate,
                )
                .values(hint_at=hint_at)
            )

    def reopen(self, hold: CardHold, card: Card, snapshot: Mapping[str, JSON], *, wanted: bool = True) -> None:
        self.let_go(
            hold,
            due_at=None,
            state=ClaimState.candidate if wanted else ClaimState.idle,
            hint_at=self._now,
            run_id=None,
            shown={},
            note="asked for again by a person",
            retry_count=0,
            **_seen(card, snapshot),
        )

    def withdraw_unseen(self, board: str, queried_at: datetime) -> int:
        return self._connection.execute(
            update(CardRow)
            .where(
                col(CardRow.board) == board,
                col(CardRow.state) == ClaimState.candidate,
                col(CardRow.hint_at) < queried_at,
            )
            .values(state=ClaimState.idle, updated_at=self._now)
        ).rowcount

    def verify(self, board: str, card_id: str) -> None:
        self._connection.execute(update(CardRow).where(*_is(board, card_id)).values(due_at=self._now, verify=True))

    def verify_unseen(self, board: str, queried_at: datetime, seen: Collection[str]) -> int:
        rows = self._connection.execute(
            select(col(CardRow.card_id)).where(
                col(CardRow.board) == board,
                col(CardRow.state) == ClaimState.claimed,
                col(CardRow.settled_at) < queried_at,
            )
        )
        missing = [row.card_id for row in rows if row.card_id not in seen]
        for card_id in missing:
            self.verify(board, card_id)
        return len(missing)

    def waiting(self, poll_id: str) -> int:
        return self._count(poll_id, (ClaimState.candidate,))

    def newest_hint(self, poll_id: str, board: str) -> datetime | None:
        return self._connection.execute(
            select(func.max(col(CardRow.hint_at))).where(
                col(CardRow.poll_id) == poll_id,
                col(CardRow.state) == ClaimState.candidate,
                col(CardRow.board) == board,
            )
        ).scalar_one()

    # -- holds

    def open_count(self, poll_id: str) -> int:
        return self._count(poll_id, OPEN_STATES)

    def claimed_since(self, poll_id: str, instant: datetime) -> int:
        return self._connection.execute(
            select(func.count()).where(col(CardRow.poll_id) == poll_id, col(CardRow.claimed_at) >= instant)
        ).scalar_one()

    def _count(self, poll_id: str, states: Sequence[ClaimState]) -> int:
        return self._connection.execute(
            select(func.count()).where(col(CardRow.poll_id) == poll_id, col(CardRow.state).in_(states))
        ).scalar_one()

    def reserve(
        self, board: str, poll_id: str, run_id: str, holder: str, held_until: datetime, *, fresh_after: datetime
    ) -> CardHold | None:
        candidate = self._connection.execute(
            select(col(CardRow.board), col(CardRow.card_id), col(CardRow.fence))
            .where(
                col(CardRow.board) == board,
                col(CardRow.poll_id) == poll_id,
                col(CardRow.state) == ClaimState.candidate,
                col(CardRow.hint_at) >= fresh_after,
                self._free_to_write(),
            )
            .order_by(col(CardRow.rank), col(CardRow.created_at), col(CardRow.position), col(CardRow.card_id))
            .limit(1)
            .with_for_update(skip_locked=True)
        ).one_or_none()
        if candidate is None:
            return None
        taken = self._connection.execute(
            update(CardRow)
            .where(*_is(candidate.board, candidate.card_id), col(CardRow.fence) == candidate.fence)
            .values(
                state=ClaimState.claiming,
                fence=candidate.fence + 1,
                generation=self._generation(candidate.card_id) + 1,
                run_id=run_id,
                holder=holder,
                held_until=held_until,
                due_at=self._now,  # whoever looks after the hold is over finds it due
                shown={},
                retry_count=0,
                note=None,
                updated_at=self._now,
            )
        )
        return self._taken(candidate.board, candidate.card_id) if taken.rowcount == 1 else None

    def _generation(self, card_id: str) -> int:
        """The highest on any board: a page that was moved from one to another keeps its id, and keys hold no board."""
        boards = select(col(BoardRow.board))  # so that the key of the table finds the rows
        found: int = self._connection.execute(
            select(func.max(col(CardRow.generation))).where(
                col(CardRow.board).in_(boards), col(CardRow.card_id) == card_id
            )
        ).scalar_one()
        return found

    def any_due(self, boards: Sequence[str]) -> bool:
        return self._connection.execute(self._due(boards)).one_or_none() is not None

    def _due(self, boards: Sequence[str]) -> Select[str, str, int]:
        return (
            select(col(CardRow.board), col(CardRow.card_id), col(CardRow.fence))
            .where(
                col(CardRow.board).in_(boards),
                col(CardRow.due_at) <= self._now,
                self._free_to_write(),
                or_(col(CardRow.held_until).is_(None), col(CardRow.held_until) <= self._now),
            )
            .order_by(col(CardRow.due_at))
            .limit(1)
        )

    def hold_due(self, held_until: Mapping[str, datetime], holder: str) -> CardHold | None:
        due = self._connection.execute(self._due(list(held_until)).with_for_update(skip_locked=True)).one_or_none()
        return self._hold(due.board, due.card_id, due.fence, holder, held_until[due.board]) if due else None

    def hold_one(self, board: str, card_id: str, holder: str, held_until: datetime) -> CardHold | None:
        row = self._connection.execute(
            select(col(CardRow.fence)).where(
                *_is(board, card_id),
                self._free_to_write(),
                or_(col(CardRow.held_until).is_(None), col(CardRow.held_until) <= self._now),
            )
        ).one_or_none()
        return self._hold(board, card_id, row.fence, holder, held_until) if row else None

    def _hold(self, board: str, card_id: str, fence: int, holder: str, held_until: datetime) -> CardHold | None:
        taken = self._connection.execute(
            update(CardRow)
            .where(*_is(board, card_id), col(CardRow.fence) == fence)
            .values(fence=fence + 1, holder=holder, held_until=held_until)
        )
        return self._taken(board, card_id) if taken.rowcount == 1 else None

    def _free_to_write(self) -> Any:
        return or_(col(CardRow.unknown_until).is_(None), col(CardRow.unknown_until) <= self._now)

    def _taken(self, board: str, card_id: str) -> CardHold:
        return _hold(self._connection.execute(select(*_columns(CardRow)).where(*_is(board, card_id))).one())

    def update(self, hold: CardHold, **changes: Any) -> None:
        self._change(hold, **changes)

    def let_go(self, hold: CardHold, *, due_at: datetime | None, **changes: Any) -> None:
        unchanged = col(CardRow.due_at).is_(None) if hold.due_at is None else col(CardRow.due_at) == hold.due_at
        self._change(
            hold,
            holder=None,
            held_until=None,
            due_at=case((unchanged, due_at), else_=col(CardRow.due_at)),
            **changes,
        )

    def _change(self, hold: CardHold, *, in_time: bool = False, **changes: Any) -> None:
        """`in_time`: only while the hold lasts, even if nobody has taken the row since."""
        wanted = update(CardRow).where(*_is(hold.board, hold.card_id), col(CardRow.fence) == hold.fence)
        if in_time:
            wanted = wanted.where(col(CardRow.held_until) > self._now)
        if self._connection.execute(wanted.values(updated_at=self._now, **changes)).rowcount != 1:
            raise StaleHold(f"card {hold.card_id}: fence {hold.fence} is not the newest, or its hold is over")

    # -- the board log

    def log(self, hold: CardHold, kind: WriteKind, wanted: Mapping[str, JSON], held_until: datetime) -> int:
        # What is to be written was decided by a page read under this hold: after it, people may have moved the card.
        self._change(hold, in_time=True, held_until=held_until)
        added = self._connection.execute(
            insert(BoardLogRow).values(
                board=hold.board,
                card_id=hold.card_id,
                run_id=hold.run_id,
                fence=hold.fence,
                kind=kind,
                wanted=dict(wanted),
                sent_at=self._now,
                outcome="sent",
            )
        )
        key = added.inserted_primary_key
        assert key is not None  # noqa: S101 -- SQLAlchemy answers one for a single-row insert
        return int(key[0])

    def log_outcome(self, log_id: int, outcome: str, error: str | None = None) -> None:
        self._connection.execute(
            update(BoardLogRow)
            .where(col(BoardLogRow.id) == log_id)
            .values(outcome=outcome, error=error, answered_at=self._now)
        )

    def log_of(self, board: str, card_id: str, limit: int = 50) -> list[LoggedWrite]:
        rows = self._connection.execute(
            select(*_columns(BoardLogRow))
            .where(col(BoardLogRow.board) == board, col(BoardLogRow.card_id) == card_id)
            .order_by(col(BoardLogRow.id).desc())
            .limit(limit)
        )
        return [LoggedWrite(WriteKind(row.kind), row.wanted, row.sent_at, row.outcome) for row in rows]

    # -- runs and people

    def run_changed(self, run_id: str) -> None:
        self._connection.execute(update(CardRow).where(col(CardRow.run_id) == run_id).values(due_at=self._now))

    def resume(self, run_id: str) -> bool:
        return (
            self._connection.execute(
                update(CardRow)
                .where(col(CardRow.run_id) == run_id)
                .values(
                    state=ClaimState.backoff,
                    due_at=self._now,
                    shown={"resume": True},
                    note="resumed by hand",
                    fence=col(CardRow.fence) + 1,  # `held_until` stays: a write of the holder may still be under way
                    updated_at=self._now,
                )
            ).rowcount
            == 1
        )

    def list(self, *, states: Sequence[ClaimState] = (), board: str | None = None) -> list[ClaimRecord]:
        wanted = select(*_columns(CardRow)).order_by(col(CardRow.updated_at).desc())
        if states:
            wanted = wanted.where(col(CardRow.state).in_(states))
        if board is not None:
            wanted = wanted.where(col(CardRow.board) == board)
        return [
            ClaimRecord(
                row.board,
                row.card_id,
                row.poll_id,
                ClaimState(row.state),
                row.generation,
                row.run_id,
                row.title,
                row.url,
                row.note,
                row.board_expires_at,
                row.updated_at,
            )
            for row in self._connection.execute(wanted)
        ]


def _columns(table: Any) -> Any:
    return table.__table__.c


def _is(board: str, card_id: str) -> tuple[Any, Any]:
    return col(CardRow.board) == board, col(CardRow.card_id) == card_id


def _fresh() -> dict[str, Any]:
    return {"generation": 0, "fence": 0, "text_hash": "", "retry_count": 0, "failures": 0, "verify": False, "shown": {}}


def _seen(card: Card, snapshot: Mapping[str, JSON]) -> dict[str, Any]:
    rank = card.priority_rank
    return {
        "snapshot": dict(snapshot),
        "rank": rank if rank < 1e300 else 1e300,  # infinity is not portable between databases
        "created_at": card.created_at,
        "title": card.title,
        "url": card.url,
    }


def _hold(row: Row[Any]) -> CardHold:
    return CardHold(
        board=row.board,
        card_id=row.card_id,
        poll_id=row.poll_id,
        state=ClaimState(row.state),
        generation=row.generation,
        run_id=row.run_id,
        fence=row.fence,
        held_until=row.held_until or row.updated_at,
        due_at=row.due_at,
        board_expires_at=row.board_expires_at,
        claimed_at=row.claimed_at,
        settled_at=row.settled_at,
        text_hash=row.text_hash,
        retry_count=row.retry_count,
        failures=row.failures,
        hint_at=row.hint_at,
        verify=row.verify,
        shown=dict(row.shown or {}),
        note=row.note,
        snapshot=dict(row.snapshot or {}),
        rank=row.rank,
    )
