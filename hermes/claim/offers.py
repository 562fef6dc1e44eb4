"""What a query of the board means: candidates, suspicions, other installations. A query decides nothing by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hermes.claim.start import card_input, snapshot
from hermes.claim.work import ClaimingPoll
from hermes.errors import Gone, HermesError
from hermes.model.card import Card, CardStatus
from hermes.model.claim import OPEN_STATES, CardHold, ClaimState
from hermes.model.installation import Identity, installation_of, names_installation
from hermes.model.json import JSON
from hermes.ports.board import TaskBoard
from hermes.ports.store import ClaimStore, ClaimUnit

TRUST = timedelta(minutes=30)
"""A board that was not polled for this long is a stranger again: claims begin with the shared protocol."""
MOST_SKEW = timedelta(seconds=30)
NAME_LENGTH = 80
"""Characters of a title or name in a message."""


@dataclass(slots=True)
class TakenIn:
    """What one query brought."""

    checked: int = 0
    matched: dict[str, int] = field(default_factory=dict)
    """Candidates by poll."""
    refused: list[str] = field(default_factory=list)
    """Cards that a filter could not judge, that could not be read or that only look claimed, in plain words."""
    incomplete: str | None = None
    """Why the query did not see everything."""
    stopped: str | None = None
    abandoned: list[Card] = field(default_factory=list)
    """Of a shared board: claims of other installations that ran out long ago."""


def ask(store: ClaimStore, board: TaskBoard, polls: Mapping[str, ClaimingPoll], identity: Identity) -> TakenIn:
    """One query for all polls of a board; everything it shows is recorded in one transaction. `polls`: all of this
    board, first come first served for a card that several want."""
    with store.read() as uow:
        asked_at = uow.now
    cards = _confirmed(store, board, polls, identity, board.open_cards(), asked_at)
    taken = take_in(store, board, polls, identity, cards, asked_at)
    taken.refused.extend(map(str, board.skipped))
    taken.incomplete = board.incomplete
    return taken


def _confirmed(
    store: ClaimStore,
    board: TaskBoard,
    polls: Mapping[str, ClaimingPoll],
    identity: Identity,
    cards: Sequence[Card],
    asked_at: datetime,
) -> list[Card]:
    """A query lags: what looks like a strange claim may be one of ours that was lost or given back since. Claims that
    would stop the whole board are read by a GET first, until one is sure."""
    shared = _is_shared(polls)
    with store.read() as uow:
        if uow.claims.board(board.key).stopped_reason is not None:
            return list(cards)
        records = uow.claims.records(board.key, [card.id for card in cards])
        copied = copied_claims(uow, cards, records, identity)

    def strange(card: Card) -> bool:
        record = records.get(card.id)
        return card.id not in copied and _stops(card, record, identity, asked_at, shared=shared) is not None

    as_read: list[Card] = []
    for position, card in enumerate(cards):
        if not strange(card):
            as_read.append(card)
            continue
        try:
            as_read.append(board.read(card.id))
        except Gone:  # trashed or moved away since: no claim of anybody's here
            continue
        if strange(as_read[-1]):
            return [*as_read, *cards[position + 1 :]]
    return as_read


def _skewed(skew: timedelta | None) -> str | None:
    """Rivals compare expiries by their own clocks."""
    if skew is None or abs(skew) <= MOST_SKEW:
        return None
    return (
        f"this machine's clock and the board's differ by {abs(skew).total_seconds():.0f} s: nothing is claimed on a "
        "shared board until it is set (expiries are compared across machines)"
    )


def _is_shared(polls: Mapping[str, ClaimingPoll]) -> bool:
    """Also by a paused poll: it is the board that is shared."""
    return any(poll.policy.shared for poll in polls.values())


def take_in(
    store: ClaimStore,
    board: TaskBoard,
    polls: Mapping[str, ClaimingPoll],
    identity: Identity,
    cards: Sequence[Card],
    asked_at: datetime,
) -> TakenIn:
    taken = TakenIn(checked=len(cards))
    shared = _is_shared(polls)
    skewed = _skewed(board.skew) if shared else None
    polls = {poll_id: poll for poll_id, poll in polls.items() if poll.active}
    with store.write() as uow:
        records = uow.claims.records(board.key, [card.id for card in cards])
        state = uow.claims.board(board.key)
        overtaken = state.queried_at is not None and asked_at < state.queried_at <= uow.now
        copied = copied_claims(uow, cards, records, identity)
        stranger = _stranger(cards, records, identity, asked_at, copied, shared=shared)
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
            problem=skewed,
            problem_at=uow.now if skewed else None,
            stopped_reason=stopped,
            **({"stopped_at": uow.now} if stopped and not state.stopped_reason else {}),
        )
        taken.stopped = stopped
        unchanged: list[str] = []
        for position, card in enumerate(cards):
            record = records.get(card.id)
            if card.status is CardStatus.todo and not card.in_trash:
                _take_in_todo(uow, board.key, card, record, polls, asked_at, taken, unchanged, position)
            elif record is not None and (_is_back(record, card, asked_at) or _overwritten(record, card, asked_at)):
                uow.claims.verify(board.key, card.id)
        uow.claims.offer_again(board.key, unchanged, asked_at)
        uow.claims.withdraw_unseen(board.key, asked_at)
        in_progress = {card.id for card in cards if card.status is CardStatus.in_progress and not _renamed(card)}
        uow.claims.verify_unseen(board.key, asked_at, in_progress)
        if shared:
            grace = max((poll.policy.lease for poll in polls.values()), default=TRUST)
            taken.abandoned = [
                card for card in cards if _abandoned(card, records.get(card.id), identity, asked_at - grace)
            ]
        taken.refused.extend(
            f"{short(card.title or card.id)}: it carries another card's claim (copied?) and nobody works on it"
            for card in cards
            if card.id in copied and card.id not in records
        )
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
    position: int,
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
            taken.refused.append(f"{short(card.title or card.id)}: {error}")
            continue
        if wanted:
            generation = (record.generation if record else 0) + 1
            asked = card_input(card, body="", generation=generation, board=board)
            wish = snapshot(asked)
            if record is not None and _stands(record, poll_id, card, wish):
                unchanged.append(card.id)
            else:
                uow.claims.offer(board, poll_id, card, wish, asked_at, position=position)
            taken.matched[poll_id] = taken.matched.get(poll_id, 0) + 1
            return


def _is_back(record: CardHold, card: Card, asked_at: datetime) -> bool:
    """It could not be found for a while and stands as we left it: nobody has shown how it ended."""
    settled = record.settled_at is not None and record.settled_at >= asked_at
    return record.state is ClaimState.gone and card.run_id == record.run_id is not None and not settled


def _overwritten(record: CardHold, card: Card, asked_at: datetime) -> bool:
    """Another claim was written over ours since we last saw the page."""
    settled = record.settled_at is not None and record.settled_at >= asked_at
    return record.state is ClaimState.claimed and card.run_id not in (None, record.run_id) and not settled


def _abandoned(card: Card, record: CardHold | None, identity: Identity, before: datetime) -> bool:
    """A claim of another installation that ran out before `before`, and has not been ours since."""
    if card.status is not CardStatus.in_progress or not names_installation(card.claimed_by):
        return False
    if installation_of(card.claimed_by) == identity.installation or (record and record.state in OPEN_STATES):
        return False
    return card.claim_expires_at is not None and card.claim_expires_at < before


def _stands(record: CardHold, poll_id: str, card: Card, wish: Mapping[str, JSON]) -> bool:
    same = record.state is ClaimState.candidate and record.poll_id == poll_id
    return same and record.rank == min(card.priority_rank, 1e300) and record.snapshot == wish


def copied_claims(
    uow: ClaimUnit, cards: Sequence[Card], records: Mapping[str, CardHold], identity: Identity
) -> frozenset[str]:
    """Cards in InProgress with our name and a run that our database knows and that is not theirs now: a person has
    copied a card, or taken one back that was asked for again. A restored database would not know the run."""
    found = set()
    for card in cards:
        if card.status is not CardStatus.in_progress or installation_of(card.claimed_by) != identity.installation:
            continue
        record = records.get(card.id)
        if card.run_id and (record is None or record.run_id != card.run_id) and uow.runs.get(card.run_id) is not None:
            found.add(card.id)
    return frozenset(found)


def _stranger(
    cards: Sequence[Card],
    records: Mapping[str, CardHold],
    identity: Identity,
    asked_at: datetime,
    copied: Collection[str],
    *,
    shared: bool,
) -> str | None:
    """Why claiming must stop."""
    reasons = (
        _stops(card, records.get(card.id), identity, asked_at, shared=shared) for card in cards if card.id not in copied
    )
    return next((reason for reason in reasons if reason is not None), None)


def _stops(card: Card, record: CardHold | None, identity: Identity, asked_at: datetime, *, shared: bool) -> str | None:
    """On a shared board the claims of others are their right."""
    if shared and installation_of(card.claimed_by) != identity.installation:
        return None
    return strange_claim(card, record, identity, asked_at)


def strange_claim(card: Card, record: CardHold | None, identity: Identity, asked_at: datetime) -> str | None:
    """What is wrong with a claim that is not ours, or carries our name while our database does not know it. None: there
    is no claim on the card, it is ours, or a person has written a name of their own: such a card is theirs alone."""
    if card.status is not CardStatus.in_progress or not names_installation(card.claimed_by):
        return None
    by = installation_of(card.claimed_by)
    if by != identity.installation:
        return (
            f"another installation ({short(by or '')}) holds the card {short(card.title or card.id)!r}. Stop it, or "
            "set `mode: shared` for this board in every installation; then: hermes-poll board adopt"
        )
    if record is None or _forgotten(record, card, asked_at):
        return (
            f"the card {short(card.title or card.id)!r} carries our name, but our database does not know its run "
            f"({short(card.run_id or 'none')}): was the database restored or copied? To take it on: hermes-poll board "
            "adopt"
        )
    return None


def short(text: str) -> str:
    """What a person wrote, as part of a message of ours: one line that cannot crowd out the rest."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:1000]).split())
    return line if len(line) <= NAME_LENGTH else line[: NAME_LENGTH - 1] + "…"


def _renamed(card: Card) -> bool:
    """A person has written over ClaimedBy: where the claim is ours, a GET puts our name back."""
    return not names_installation(card.claimed_by)


def _forgotten(record: CardHold, card: Card, asked_at: datetime) -> bool:
    """The board shows a claim of ours that is no claim in our database, and did not become one since the query."""
    known = record.run_id == card.run_id or record.state in OPEN_STATES
    return not known and (record.settled_at is None or record.settled_at < asked_at)
