"""Claims that are not this database's, shown to a person and, on their word, given back to Todo.

Nobody but a person can know that the other installation is gone, so nothing here runs by itself. Each card is read
again under a hold before it is written, and a claim that has changed since it was shown is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from hermes.claim.offers import copied_claims, strange_claim
from hermes.claim.start import card_input, snapshot
from hermes.claim.work import Work, hold_end
from hermes.claim.writing import write_card
from hermes.clock import Clock
from hermes.errors import Gone, SourceError, UnknownOutcome
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import OPEN_STATES, CardHold, ClaimPolicy, ClaimState, WriteKind
from hermes.model.installation import Identity, installation_of
from hermes.ports.board import TaskBoard
from hermes.ports.claims import StaleHold
from hermes.ports.store import ClaimStore

NEVER_SHOWN = datetime(1970, 1, 1, tzinfo=UTC)
"""As a hint: never fresh, so the row is claimed by nobody."""


BUSY = "a write to it may still land, or another process works on it: try again in a minute"


@dataclass(frozen=True, slots=True)
class ForeignClaim:
    card: Card
    installation: str
    """Who is said to hold it; our own name when our database does not know the run."""
    live: bool
    """By the board it has not expired: whoever made it may still be at work."""
    reason: str


@dataclass(frozen=True, slots=True)
class Adopted:
    given_back: tuple[str, ...]
    """Card ids: in Todo now, or moved by a person meanwhile."""
    left: tuple[tuple[str, str], ...]
    """Card id and why it stays as it is."""

    @property
    def complete(self) -> bool:
        return not self.left


def foreign_claims(store: ClaimStore, board: TaskBoard, identity: Identity, *, shared: bool) -> list[ForeignClaim]:
    """One query. On a shared board the live claims of others are their right and not among these."""
    with store.read() as uow:
        asked_at = uow.now
    cards = board.open_cards()
    with store.read() as uow:
        records = uow.claims.records(board.key, [card.id for card in cards])
        copied = copied_claims(uow, cards, records, identity)
    found = []
    for card in cards:
        record = records.get(card.id)
        reason = strange_claim(card, record, identity, asked_at)
        if reason is None or card.id in copied or _owned(record):
            continue
        live = card.claim_expires_at is None or card.claim_expires_at > asked_at
        if not (shared and live):
            found.append(ForeignClaim(card, installation_of(card.claimed_by) or "nobody", live, reason))
    return found


def adopt(
    store: ClaimStore,
    board: TaskBoard,
    identity: Identity,
    clock: Clock,
    poll_id: str,
    claims: Sequence[ForeignClaim],
) -> Adopted:
    """Give these cards back to Todo and, when all are, let the board be claimed again: first by the shared protocol, as
    after a start. `poll_id` is the poll that rows of unknown cards are kept under until a query says otherwise. Done
    twice, the second finds nothing to do."""
    given: list[str] = []
    left: list[tuple[str, str]] = []
    for claim in claims:
        why = _give_back(store, board, identity, clock, poll_id, claim)
        if why is None:
            given.append(claim.card.id)
        else:
            left.append((claim.card.id, why))
    if not left:
        with store.write() as uow:
            uow.claims.note_board(board.key, stopped_reason=None, stopped_at=None, alone_since=None)
    return Adopted(tuple(given), tuple(left))


def _owned(record: CardHold | None) -> bool:
    """Our run holds it, whatever name somebody wrote over ours: the next look puts ours back."""
    return record is not None and record.state in OPEN_STATES


def show_abandoned(
    store: ClaimStore,
    board: TaskBoard,
    identity: Identity,
    clock: Clock,
    poll_id: str,
    cards: Sequence[Card],
) -> None:
    """Claims of other installations of a shared board that ran out long ago: never taken over, since their makers may
    still be at work; people are told on the card, and a card that they move to Todo is anybody's."""
    for card in cards:
        claim = ForeignClaim(card, installation_of(card.claimed_by) or "nobody", live=False, reason="expired")
        _write_held(store, board, identity, clock, poll_id, claim, _abandoned_values(claim), "shown as abandoned")


def _abandoned_values(claim: ForeignClaim) -> CardValues:
    until = claim.card.claim_expires_at
    text = (
        f"Needs attention: claimed by {claim.installation} until {until:%Y-%m-%d %H:%M} UTC and not heard of since. If "
        "that installation is not at work on it, move the card back to Todo."
    )
    return CardValues(status=CardStatus.attention, last_error=text)


_TODO = CardValues(status=CardStatus.todo, claimed_by=None, run_id=None, claim_expires_at=None)


def _give_back(
    store: ClaimStore, board: TaskBoard, identity: Identity, clock: Clock, poll_id: str, claim: ForeignClaim
) -> str | None:
    """None when the card is free now, else why not."""
    note = f"given back by hand; {claim.card.claimed_by} had claimed it as run {claim.card.run_id}"
    return _write_held(store, board, identity, clock, poll_id, claim, _TODO, note)


def _write_held(
    store: ClaimStore,
    board: TaskBoard,
    identity: Identity,
    clock: Clock,
    poll_id: str,
    claim: ForeignClaim,
    values: CardValues,
    note: str,
) -> str | None:
    """Hold the row, GET, and write `values` where the claim still stands as it was shown. None when it does not stand
    any more, else why it does."""
    card_id = claim.card.id
    with store.write() as uow:
        if card_id not in uow.claims.records(board.key, [card_id]):
            asked = card_input(claim.card, body="", generation=1, board=board.key)
            uow.claims.offer(board.key, poll_id, claim.card, snapshot(asked), NEVER_SHOWN)
        hold = uow.claims.hold_one(board.key, card_id, identity.boot_id, hold_end(board, uow.now))
    if hold is None or _owned(hold):
        if hold is not None:
            with store.write() as uow:
                uow.claims.let_go(hold, due_at=uow.now)
        return BUSY
    log = structlog.get_logger("hermes.claim").bind(source_object_id=card_id, poll_id=hold.poll_id)
    work = Work(store, board, ClaimPolicy(hold.poll_id, ""), None, identity, clock, log, hold)
    try:
        return _write_where_it_stands(work, claim, values, note)
    except StaleHold:
        return BUSY
    except Gone:
        work.let_go(due_in=None, state=ClaimState.gone, note="the card cannot be found")
        return None
    except SourceError as error:
        _keep_away(work, error)
        return str(error)


def _write_where_it_stands(work: Work, claim: ForeignClaim, values: CardValues, note: str) -> str | None:
    card = work.board.read(work.hold.card_id)
    if card.in_trash:
        work.let_go(due_in=None, state=ClaimState.gone, note="the card was put in the trash")
        return None
    if card.status is not CardStatus.in_progress:
        _let_go(work, "a person moved it meanwhile")
        return None
    shown = claim.card
    if (card.claimed_by, card.run_id) != (shown.claimed_by, shown.run_id):
        _let_go(work, f"claimed anew by {card.claimed_by}")
        return f"claimed anew by {card.claimed_by} since it was shown: is that installation still running?"
    if not claim.live and card.claim_expires_at != shown.claim_expires_at:
        _let_go(work, f"{card.claimed_by} has extended its claim")
        return f"{card.claimed_by} has extended its claim since it was shown: it is still running"
    written = write_card(work, WriteKind.release, values)
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
    _let_go(work, note)
    work.log.info("foreign claim written over", claimed_by=card.claimed_by, foreign_run=card.run_id, decision=note)
    return None


def _let_go(work: Work, note: str) -> None:
    work.let_go(due_in=None, state=ClaimState.idle, run_id=None, settled_at=work.clock.now(), note=note)


def _keep_away(work: Work, error: SourceError) -> None:
    """After a write of unknown outcome nobody writes the page before it can no longer land."""
    with work.store.write() as uow:
        until = uow.now + (work.board.times.wait_out if isinstance(error, UnknownOutcome) else timedelta(0))
        uow.claims.let_go(work.hold, due_at=None, state=ClaimState.idle, unknown_until=until, note=str(error)[:500])
