"""What a query of the board means: candidates, suspicions, other installations. A query decides nothing by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermes.claim.start import card_input, snapshot
from hermes.claim.work import ClaimingPoll
from hermes.errors import HermesError
from hermes.model.card import Card, CardStatus
from hermes.model.claim import CardHold, ClaimState
from hermes.model.installation import Identity, installation_of
from hermes.model.json import JSON
from hermes.ports.board import TaskBoard
from hermes.ports.store import ClaimStore, ClaimUnit

TRUST = timedelta(minutes=30)
"""A board that was not polled for this long is a stranger again: claims begin with the shared protocol."""


@dataclass(slots=True)
class TakenIn:
    """What one query brought."""

    checked: int = 0
    matched: dict[str, int] = field(default_factory=dict)
    """Candidates by poll."""
    refused: list[str] = field(default_factory=list)
    """Cards that a filter could not judge or that could not be read, in plain words."""
    incomplete: str | None = None
    """Why the query did not see everything."""
    stopped: str | None = None


def ask(store: ClaimStore, board: TaskBoard, polls: Mapping[str, ClaimingPoll], identity: Identity) -> TakenIn:
    """One query for all polls of a board; everything it shows is recorded in one transaction."""
    with store.read() as uow:
        asked_at = uow.now
    cards = board.open_cards()
    taken = take_in(store, board, polls, identity, cards, asked_at)
    taken.refused.extend(map(str, board.skipped))
    taken.incomplete = board.incomplete
    return taken


def take_in(
    store: ClaimStore,
    board: TaskBoard,
    polls: Mapping[str, ClaimingPoll],
    identity: Identity,
    cards: Sequence[Card],
    asked_at: datetime,
) -> TakenIn:
    """`polls`: those of this board that may claim, first come first served for a card that several want."""
    taken = TakenIn(checked=len(cards))
    shared = any(poll.policy.shared for poll in polls.values())
    with store.write() as uow:
        records = uow.claims.records(board.key, [card.id for card in cards])
        state = uow.claims.board(board.key)
        overtaken = state.queried_at is not None and asked_at < state.queried_at <= uow.now
        stranger = None if shared else _stranger(cards, records, identity, asked_at)
        stopped = state.stopped_reason or stranger
        if overtaken:  # a query that began later has been recorded already: this one knows less
            if stopped and not state.stopped_reason:
                uow.claims.note_board(board.key, alone_since=None, stopped_reason=stopped, stopped_at=uow.now)
            taken.stopped = stopped
            return taken
        alone = state.alone_since
        if stopped or alone is None or state.queried_at is None or asked_at - state.queried_at > TRUST:
            alone = None if stopped else asked_at
        uow.claims.note_board(
            board.key,
            alone_since=alone,
            queried_at=asked_at,
            answered_at=uow.now,
            problem=None,
            problem_at=None,
            stopped_reason=stopped,
            **({"stopped_at": uow.now} if stopped and not state.stopped_reason else {}),
        )
        taken.stopped = stopped
        unchanged: list[str] = []
        for card in cards:
            record = records.get(card.id)
            if card.status is CardStatus.todo and not card.in_trash:
                _take_in_todo(uow, board.key, card, record, polls, asked_at, taken, unchanged)
        uow.claims.offer_again(board.key, unchanged, asked_at)
        uow.claims.withdraw_unseen(board.key, asked_at)
        in_progress = {card.id for card in cards if card.status is CardStatus.in_progress}
        uow.claims.verify_unseen(board.key, asked_at, in_progress)
    return taken


def _take_in_todo(
    uow: ClaimUnit,
    board: str,
    card: Card,
    record: CardHold | None,
    polls: Mapping[str, ClaimingPoll],
    asked_at: datetime,
    taken: TakenIn,
    unchanged: list[str],
) -> None:
    """`unchanged` collects candidates that stand as they stood: a long queue is not written anew at every query."""
    if record is not None and record.state in (ClaimState.done, ClaimState.gone):
        if record.settled_at is None or record.settled_at < asked_at:
            uow.claims.verify(board, card.id)
        return
    if record is not None and record.state not in (ClaimState.idle, ClaimState.candidate):
        return  # ours: a claimed card that shows in Todo is found by `verify_unseen`
    for poll_id, poll in polls.items():
        try:
            wanted = poll.wants(card, asked_at)
        except HermesError as error:
            taken.refused.append(f"{card.title or card.id}: {error}")
            continue
        if wanted:
            generation = (record.generation if record else 0) + 1
            asked = card_input(card, body="", generation=generation, board=board)
            wish = snapshot(asked)
            if record is not None and _stands(record, poll_id, card, wish):
                unchanged.append(card.id)
            else:
                uow.claims.offer(board, poll_id, card, wish, asked_at)
            taken.matched[poll_id] = taken.matched.get(poll_id, 0) + 1
            return


def _stands(record: CardHold, poll_id: str, card: Card, wish: Mapping[str, JSON]) -> bool:
    same = record.state is ClaimState.candidate and record.poll_id == poll_id
    return same and record.rank == card.priority_rank and record.snapshot == wish


def _stranger(
    cards: Sequence[Card], records: Mapping[str, CardHold], identity: Identity, asked_at: datetime
) -> str | None:
    """Why claiming must stop."""
    reasons = (strange_claim(card, records.get(card.id), identity, asked_at) for card in cards)
    return next((reason for reason in reasons if reason is not None), None)


def strange_claim(card: Card, record: CardHold | None, identity: Identity, asked_at: datetime) -> str | None:
    """What is wrong with a claim that is not ours, or carries our name while our database does not know it. None: there
    is no claim on the card, or it is ours."""
    by = installation_of(card.claimed_by)
    if card.status is not CardStatus.in_progress or by is None:
        return None
    if by != identity.installation:
        return (
            f"another installation ({by}) holds the card {card.title or card.id!r}. Stop it, or set `mode: shared` "
            "for this board in every installation; then: hermes-poll board adopt"
        )
    if record is None or _forgotten(record, card, asked_at):
        return (
            f"the card {card.title or card.id!r} carries our name, but our database does not know its run "
            f"({card.run_id}): was the database restored or copied? To take it on: hermes-poll board adopt"
        )
    return None


def _forgotten(record: CardHold, card: Card, asked_at: datetime) -> bool:
    """The board shows a claim of ours that is no claim in our database, and did not become one since the query."""
    known = record.run_id == card.run_id or record.state in _UNDER_WAY
    return not known and (record.settled_at is None or record.settled_at < asked_at)


_UNDER_WAY = (ClaimState.claiming, ClaimState.settling, ClaimState.claimed, ClaimState.backoff)
