"""Claim a reserved card, exclusively or shared, and find out what became of a claim that was interrupted."""

from __future__ import annotations

from datetime import datetime

from hermes.claim.expiry import believed, next_look, round_up_to_minute
from hermes.claim.start import give_back, start
from hermes.claim.stop import stop
from hermes.claim.work import Work, not_before
from hermes.claim.writing import Written, write_card
from hermes.crash_points import CrashPoint, reach
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import ClaimState, WriteKind
from hermes.model.installation import installation_of
from hermes.model.run import Run

RESUME = "resume"
"""In `CardHold.shown`: the card is claimed again for a run that had stopped; True when a person resumed it by hand."""
BY_THE_BOARD = "by the board"
"""It was moved to Todo. What stands elsewhere was not asked for, or not any more."""


def claim(work: Work, *, shared: bool) -> None:
    """`work.hold` was just reserved. Afterwards: claimed, settling, candidate again or, on error, still claiming."""
    reach(CrashPoint.card_leased)
    if not shared:
        written = send_claim(work)
        reach(CrashPoint.claim_acknowledged)
        start(work, written.card, written.log_id)
        return
    began = work.clock.boot_seconds()
    card = work.board.read(work.hold.card_id)
    if not free_to_claim(card, work.identity.installation, work.clock.now()):
        give_back(work, "taken by someone else meanwhile", state=ClaimState.idle)
        return
    claim_among_rivals(work, began)


def claim_among_rivals(work: Work, began: float) -> None:
    """Shared protocol, after the GET that was begun at `began` (boot seconds) has shown a card that is free to claim:
    one PATCH, then settle. A write that has not left within W never leaves; one acknowledged later than W may have
    landed after a rival's read-back, so its maker starts nothing by it."""
    times = work.board.times
    written = send_claim(work, send_by=began + times.guard.total_seconds())
    reach(CrashPoint.claim_acknowledged)
    acknowledged = work.clock.boot_seconds()
    late = acknowledged - began > times.guard.total_seconds()
    wait = times.wait_out if late else times.settle
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
        if work.hold.run_id is not None:
            uow.places.take_place(work.policy.poll_id, work.hold.run_id, uow.now + 2 * wait)
        uow.claims.let_go(
            work.hold,
            due_at=uow.now + wait,
            state=ClaimState.claiming if late else ClaimState.settling,
            shown={**work.hold.shown, **not_before(work.clock, wait)},
            note=f"acknowledged after {acknowledged - began:.0f} s, too late for a shared board" if late else None,
            failures=0,
        )


def settle(work: Work) -> None:
    """Shared protocol, after the settling time: ours only if the board still says so."""
    card = work.board.read(work.hold.card_id)
    if not _ours(work, card):
        _not_ours(work, card, f"lost to {installation_of(card.claimed_by) or 'another hand'} while settling")
    elif (run := work.run()) is None:
        start(work, card, None)
    else:
        go_on(work, run, card)


def recover(work: Work) -> None:
    """The process that claimed has died, or its write was never answered: the board decides, by GET."""
    card = work.board.read(work.hold.card_id)
    if not _ours(work, card):
        _not_ours(work, card, "the claim did not reach the board")
    elif not work.hold.shown.get("shared"):
        start(work, card, None)
    else:
        unread(work, card)


def unread(work: Work, card: Card) -> None:
    """A claim made among rivals stands on the board, and nobody has read it back in time."""
    if work.policy.shared:
        _leave_unfinished_claim(work, card)
    else:  # an exclusive board, claimed before we knew to be alone: wait once more for rivals to show
        settle_for = work.board.times.settle
        work.let_go(
            due_in=settle_for,
            state=ClaimState.settling,
            shown={**work.hold.shown, **not_before(work.clock, settle_for)},
        )


def go_on(work: Work, run: Run, card: Card, log_id: int | None = None) -> None:
    """The card is claimed again for a run that exists: its row is ours, and the run may be driven."""
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        uow.runs.release_hold(run.id, uow.now)  # the run before its card: see start.py
        expires_at = believed(card.claim_expires_at, uow.now, work.policy.lease)
        uow.claims.let_go(
            work.hold,
            due_at=next_look(expires_at, work.policy.lease),
            state=ClaimState.claimed,
            board_expires_at=expires_at,
            claimed_at=uow.now,
            settled_at=uow.now,
            shown={},
            note=None,
            verify=False,
            failures=0,
        )
    work.log.info("card claimed again", run_id=run.id, deliveries=run.deliveries)


def free_to_claim(card: Card, installation: str, now: datetime) -> bool:
    """In Todo, and no claim of another installation still runs on it."""
    return not card.in_trash and card.status is CardStatus.todo and not claimed_elsewhere(card, installation, now)


def claimed_elsewhere(card: Card, installation: str, now: datetime) -> bool:
    """By the board, another installation's claim on it still runs."""
    if installation_of(card.claimed_by) in (None, installation):
        return False
    return card.claim_expires_at is not None and card.claim_expires_at > now


def claim_values(work: Work, now: datetime) -> CardValues:
    return CardValues(
        status=CardStatus.in_progress,
        claimed_by=work.identity.claimed_by,
        claimed_at=now,
        claim_expires_at=round_up_to_minute(now + work.policy.lease),
        run_id=work.hold.run_id,
    )


def send_claim(work: Work, send_by: float | None = None) -> Written:
    """One PATCH. When its answer is lost, a GET that shows the claim is as good as the answer: the claim names a run
    that no other write names, so it has landed and cannot land again. A GET that does not show it proves nothing."""

    def landed(card: Card) -> bool:
        return _ours(work, card) and card.claimed_by == work.identity.claimed_by

    values = claim_values(work, work.clock.now())
    return write_card(work, WriteKind.claim, values, send_by=send_by, landed=landed)


def _ours(work: Work, card: Card) -> bool:
    return not card.in_trash and card.status is CardStatus.in_progress and card.run_id == work.hold.run_id


def _not_ours(work: Work, card: Card, why: str) -> None:
    run = work.run()
    if run is not None:  # a run that had been parked, and was asked for again where rivals are
        stop(work, run, "the card was put in the trash" if card.in_trash else why)
        return
    if card.in_trash:
        # Keeps its RunId and generation: when it is restored, the claim that then shows is known to be ours.
        with work.store.write() as uow:
            if work.hold.run_id is not None:
                uow.places.release_place(work.hold.run_id)
            uow.claims.let_go(
                work.hold,
                due_at=None,
                state=ClaimState.gone,
                note="the card was put in the trash",
                verify=False,
                failures=0,
            )
    elif card.status is CardStatus.todo:
        give_back(work, why)
        return
    else:
        give_back(work, why, state=ClaimState.idle)
        return
    work.log.info("claim not ours", reason="the card was put in the trash")


def _leave_unfinished_claim(work: Work, card: Card) -> None:
    """On a shared board a claim whose acknowledgement was late or lost is nobody's to start (claim-model, C7): it may
    have landed over a rival that had read its own claim back and works. Such a rival puts its name back before this
    claim expires. If it still stands then, nobody works on the card, and people are told."""
    now = work.clock.now()
    if card.claim_expires_at is not None and card.claim_expires_at > now:
        with work.store.write() as uow:
            if work.hold.run_id is not None:
                uow.places.release_place(work.hold.run_id)
            uow.claims.let_go(work.hold, due_at=card.claim_expires_at, note="claimed too late to start", failures=0)
        return
    text = "Needs attention: claimed but never started, because its claim was acknowledged late. Move it back to Todo."
    values = CardValues(status=CardStatus.attention, last_error=text, claim_expires_at=None)
    if RESUME in work.hold.shown:  # should this be interrupted, what we are about to show is not claimed again
        with work.store.write() as uow:
            uow.claims.update(work.hold, shown={**work.hold.shown, RESUME: BY_THE_BOARD})
    written = write_card(work, WriteKind.release, values)
    close_unfinished(work, text, written.log_id)


def close_unfinished(work: Work, why: str, log_id: int | None = None) -> None:
    """The card is shown as needing attention. A run that it had is parked again: moved back to Todo it goes on."""
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        if work.hold.run_id is not None:
            uow.places.release_place(work.hold.run_id)
            uow.runs.park(work.hold.run_id, "its claim was acknowledged late")
        uow.claims.let_go(
            work.hold,
            due_at=None,
            state=ClaimState.done,
            settled_at=uow.now,
            shown={},
            note=why,
            verify=False,
            failures=0,
        )
