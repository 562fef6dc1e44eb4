"""Claim a reserved card, exclusively or shared, and find out what became of a claim that was interrupted."""

from __future__ import annotations

from datetime import datetime

from hermes.claim.expiry import round_up_to_minute
from hermes.claim.start import give_back, start
from hermes.claim.work import Work
from hermes.claim.writing import Written, write_card
from hermes.crash_points import CrashPoint, reach
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import ClaimState, WriteKind
from hermes.model.installation import installation_of


def claim(work: Work, *, shared: bool) -> None:
    """`work.hold` was just reserved. Afterwards: claimed, settling, candidate again or, on error, still claiming."""
    reach(CrashPoint.card_leased)
    if not shared:
        written = _send_claim(work)
        reach(CrashPoint.claim_acknowledged)
        start(work, written.card, written.log_id)
        return
    began = work.clock.boot_seconds()
    card = work.board.read(work.hold.card_id)
    if not free_to_claim(card, work.identity.installation, work.clock.now()):
        give_back(work, "taken by someone else meanwhile", state=ClaimState.idle)
        return
    written = _send_claim(work)
    reach(CrashPoint.claim_acknowledged)
    took = work.clock.boot_seconds() - began
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
        late = took > work.board.times.guard.total_seconds()
        wait = work.board.times.wait_out if late else work.board.times.settle
        if work.hold.run_id is not None:
            uow.places.take_place(work.policy.poll_id, work.hold.run_id, uow.now + 2 * wait)
        uow.claims.let_go(
            work.hold,
            due_at=uow.now + wait,
            state=ClaimState.claiming if late else ClaimState.settling,
            note=f"acknowledged after {took:.0f} s, too late for a shared board" if late else None,
            failures=0,
        )


def settle(work: Work) -> None:
    """Shared protocol, after the settling time: ours only if the board still says so."""
    card = work.board.read(work.hold.card_id)
    if _ours(work, card):
        start(work, card, None)
    else:
        _not_ours(work, card, f"lost to {installation_of(card.claimed_by) or 'another hand'} while settling")


def recover(work: Work) -> None:
    """The process that claimed has died, or its write was never answered: the board decides, by GET."""
    card = work.board.read(work.hold.card_id)
    if not _ours(work, card):
        _not_ours(work, card, "the claim did not reach the board")
    elif not work.hold.shown.get("shared"):
        start(work, card, None)
    elif work.policy.shared:
        _show_unfinished_claim(work)
    else:  # exclusive, but claimed before we knew to be alone: wait once more for rivals to show
        work.let_go(due_in=work.board.times.settle, state=ClaimState.settling)


def free_to_claim(card: Card, installation: str, now: datetime) -> bool:
    """In Todo, and no claim of another installation still runs on it."""
    if card.in_trash or card.status is not CardStatus.todo:
        return False
    by = installation_of(card.claimed_by)
    return by in (None, installation) or card.claim_expires_at is None or card.claim_expires_at <= now


def claim_values(work: Work, now: datetime) -> CardValues:
    return CardValues(
        status=CardStatus.in_progress,
        claimed_by=work.identity.claimed_by,
        claimed_at=now,
        claim_expires_at=round_up_to_minute(now + work.policy.lease),
        run_id=work.hold.run_id,
    )


def _send_claim(work: Work) -> Written:
    return write_card(work, WriteKind.claim, claim_values(work, work.clock.now()))


def _ours(work: Work, card: Card) -> bool:
    return not card.in_trash and card.status is CardStatus.in_progress and card.run_id == work.hold.run_id


def _not_ours(work: Work, card: Card, why: str) -> None:
    if not card.in_trash and card.status is CardStatus.todo:
        give_back(work, why)
        return
    with work.store.write() as uow:
        if work.hold.run_id is not None:
            uow.places.release_place(work.hold.run_id)
        uow.claims.let_go(
            work.hold,
            due_at=None,
            state=ClaimState.gone if card.in_trash else ClaimState.idle,
            generation=work.hold.generation - 1,
            run_id=None,
            note="the card was put in the trash" if card.in_trash else why,
            verify=False,
            failures=0,
        )
    work.log.info("claim not ours", reason=why)


def _show_unfinished_claim(work: Work) -> None:
    """On a shared board a claim whose acknowledgement was late or lost is nobody's to start (claim-model, C7)."""
    text = "Needs attention: claimed but never started, because its claim was acknowledged late. Move it back to Todo."
    written = write_card(
        work,
        WriteKind.release,
        CardValues(status=CardStatus.attention, last_error=text, claim_expires_at=None),
    )
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
        if work.hold.run_id is not None:
            uow.places.release_place(work.hold.run_id)
        uow.claims.let_go(
            work.hold, due_at=None, state=ClaimState.done, settled_at=uow.now, note=text, verify=False, failures=0
        )
