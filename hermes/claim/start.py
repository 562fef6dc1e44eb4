"""From an acknowledged claim to a run: the row that makes a card ours."""

from __future__ import annotations

from dataclasses import asdict

from hermes.claim.expiry import believed, next_look
from hermes.claim.work import Work
from hermes.claim.writing import concerns_one_card, write_card
from hermes.crash_points import CrashPoint, reach
from hermes.errors import Retryable, SourceError
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import CardHold, CardInput, ClaimState, WriteKind
from hermes.model.json import JSON
from hermes.model.run import NewRun, RunKind

CLAIM_FAILURES = 3
"""Refused writes in a row after which a card waits for the next query."""
BODY_FAILURES = 10
"""After so many in a row, about half an hour, it is the page that cannot be read and not the board that is away."""


def card_input(card: Card, *, body: str, generation: int, board: str) -> CardInput:
    return CardInput(
        id=card.id,
        url=card.url,
        title=card.title,
        description=card.description,
        body=body,
        priority=card.priority,
        properties=dict(card.properties),
        generation=generation,
        board=board,
    )


def snapshot(asked: CardInput) -> dict[str, JSON]:
    return asdict(asked)


def run_key(hold: CardHold, action: str) -> str:
    """Fixed before the first attempt: the card, how often people have asked for it, and what is done with it."""
    return f"{hold.card_id}:{hold.generation}:{action}"


def start(work: Work, card: Card, log_id: int | None) -> None:
    """Record the claim as ours and its run, in one transaction; from here on it is the workers'."""
    hold, policy, action = work.hold, work.policy, work.action
    if action is None:  # the poll left the configuration while its claim was under way
        _release(work, "its poll was taken out of the configuration")
        return
    try:
        body = work.board.read_body(hold.card_id) if policy.read_body else ""
    except SourceError as error:
        if not (concerns_one_card(error) or (isinstance(error, Retryable) and hold.failures >= BODY_FAILURES)):
            raise
        _show_unreadable(work, error, log_id)
        return
    asked = card_input(card, body=body, generation=hold.generation, board=hold.board)
    reach(CrashPoint.claim_read_back)
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        # A run, its place, its card: always in this order, so that no two transactions wait for each other.
        _, created = uow.runs.enqueue(
            NewRun(
                key=run_key(hold, action.name),
                kind=RunKind.card,
                function=action.function,
                args=action.args(asked),
                run_id=hold.run_id,
                place_group=policy.poll_id,
                priority=policy.priority,
                max_deliveries=policy.max_attempts,
                hold_on_redelivery=not policy.shared,
                poll_id=policy.poll_id,
                condition_version=policy.condition_version,
                object_id=hold.card_id,
            )
        )
        expires_at = believed(card.claim_expires_at, uow.now, policy.lease)
        uow.claims.let_go(
            hold,
            due_at=next_look(expires_at, policy.lease),
            state=ClaimState.claimed,
            board_expires_at=expires_at,
            claimed_at=uow.now,
            settled_at=uow.now,
            text_hash=card.text_hash,
            title=card.title,
            verify=False,
            failures=0,
        )
    work.log.info("card claimed", run_id=hold.run_id, decision="claimed" if created else "joined")


def _show_unreadable(work: Work, error: SourceError, log_id: int | None) -> None:
    """Claimed, and its page cannot be read: without it the card would be worked on wrongly. No other waits for it."""
    text = f"Needs attention: its page cannot be read ({error}). After curing it move the card back to Todo."
    values = CardValues(status=CardStatus.attention, last_error=text, claim_expires_at=None)
    written = write_card(work, WriteKind.release, values)
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        uow.claims.log_outcome(written.log_id, "applied")
        if work.hold.run_id is not None:
            uow.places.release_place(work.hold.run_id)
        uow.claims.let_go(
            work.hold, due_at=None, state=ClaimState.done, settled_at=uow.now, note=text[:500], verify=False, failures=0
        )
    work.log.warning("a card's page cannot be read", error=str(error))


def _release(work: Work, why: str) -> None:
    """The claim stands on the board and nobody is to work on it: Todo again."""
    values = CardValues(status=CardStatus.todo, claimed_by=None, run_id=None, claim_expires_at=None)
    written = write_card(work, WriteKind.release, values)
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
    give_back(work, why, state=ClaimState.idle)


def give_back(work: Work, why: str, *, state: ClaimState | None = None) -> None:
    """The claim surely does not stand on the board: its generation is not used up. The card is a candidate again, or
    idle until the next query when claiming it has failed several times in a row."""
    often = work.hold.failures >= CLAIM_FAILURES
    with work.store.write() as uow:
        if work.hold.run_id is not None:
            uow.places.release_place(work.hold.run_id)
        uow.claims.let_go(
            work.hold,
            due_at=None,
            state=state or (ClaimState.idle if often else ClaimState.candidate),
            generation=work.hold.generation - 1,
            run_id=None,
            hint_at=uow.now,  # a GET has just shown it in Todo
            note=why,
            verify=False,
        )
    work.log.info("claim given back", reason=why)
