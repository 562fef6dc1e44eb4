"""Between two deliveries of an exclusive board, and after a person has asked a stopped run to go on: the card is shown
in Todo, then claimed again when due."""

from __future__ import annotations

from datetime import timedelta

from hermes.claim.claiming import (
    BY_THE_BOARD,
    RESUME,
    claim_among_rivals,
    claimed_elsewhere,
    close_unfinished,
    go_on,
    send_claim,
    unread,
)
from hermes.claim.endings import why_again
from hermes.claim.finish import finish
from hermes.claim.people import moved
from hermes.claim.start import card_input, snapshot
from hermes.claim.stop import stop
from hermes.claim.work import Work
from hermes.claim.writing import write_card, write_text
from hermes.crash_points import CrashPoint, reach
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import ClaimPolicy, ClaimState, WriteKind
from hermes.model.installation import installation_of
from hermes.model.run import Run

STOPPED = frozenset({CardStatus.failed, CardStatus.attention})
RESUMABLE = STOPPED | {CardStatus.todo}
"""Where a card may stand whose run a person has resumed by hand: we had left it as Failed."""

GIVING_BACK = "giving_back"
"""In `CardHold.shown`: the claim of a stopping process is on its way back to Todo."""


def never_in_todo(run: Run, policy: ClaimPolicy | None) -> bool:
    """A started card of a shared board keeps its claim: in Todo another installation would start it too."""
    return not run.hold_on_redelivery or (policy is not None and policy.shared)


def show_retry(work: Work, run: Run) -> None:
    """A delivery failed and others are left: GET, then Todo with RetryCount + 1 and a short LastError."""
    card = work.board.read(work.hold.card_id)
    what = moved(card, CardStatus.in_progress)
    already = card.status is CardStatus.todo and card.retry_count == work.hold.retry_count + 1 and card.run_id == run.id
    if what is not None and not already:
        stop(work, run, what)
        return
    if "retry" in work.policy.comment_on:
        text = why_again(run)
        write_text(
            work,
            WriteKind.comment,
            f"retry/{work.hold.retry_count + 1}",
            lambda marker, again, send_by: work.board.comment(
                work.hold.card_id, marker, text, again=again, send_by=send_by
            ),
        )
    count = work.hold.retry_count + 1
    log_id = None
    if not already:
        values = CardValues(
            status=CardStatus.todo,
            retry_count=count,
            last_error=why_again(run),
            claimed_by=None,
            claim_expires_at=None,
        )
        log_id = write_card(work, WriteKind.retry, values).log_id
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        uow.claims.let_go(
            work.hold,
            due_at=run.due_at or uow.now,
            state=ClaimState.backoff,
            retry_count=count,
            board_expires_at=None,
            settled_at=uow.now,
            shown={},
            verify=False,
            failures=0,
        )


def give_up(work: Work, run: Run) -> None:
    """The last process stops and nobody drives this run, which is held: the card waits in Todo, no attempt counted.
    Begun again by the next process where it was interrupted; whose hand a move was is then for `reclaim` to say."""
    card = work.board.read(work.hold.card_id)
    log_id = None
    if moved(card, CardStatus.in_progress) is None:
        values = CardValues(status=CardStatus.todo, claimed_by=None, claim_expires_at=None)
        log_id = write_card(work, WriteKind.release, values).log_id
    with work.store.write() as uow:
        if log_id is not None:
            uow.claims.log_outcome(log_id, "applied")
        uow.places.release_place(run.id)
        uow.claims.let_go(
            work.hold,
            due_at=uow.now,
            state=ClaimState.backoff,
            board_expires_at=None,
            settled_at=uow.now,
            shown={},
            note="given back when its process was stopped",
            verify=False,
            failures=0,
        )
    work.log.info("card given back", run_id=run.id)


def reclaim(work: Work) -> None:
    """A card in backoff is due: claim it again for the same run, unless people have decided otherwise meanwhile."""
    run = work.run()
    if run is None:
        work.let_go(due_in=None, state=ClaimState.done, note="its run is no longer in the database")
        return
    if run.state.final:
        finish(work, run)
        return
    now = work.clock.now()
    if run.due_at is not None and run.due_at > now:
        work.let_go(due_in=run.due_at - now)
        return
    began = work.clock.boot_seconds()
    card = work.board.read(work.hold.card_id)
    resumed = work.hold.shown.get(RESUME)
    landed = card.status is CardStatus.in_progress and card.run_id == run.id and not card.in_trash
    if not landed and resumed == BY_THE_BOARD and not card.in_trash and card.status in STOPPED:
        close_unfinished(work, "its claim was not finished")
        return
    if not landed and (card.in_trash or card.status not in (RESUMABLE if resumed else {CardStatus.todo})):
        stop(work, run, moved(card, CardStatus.todo) or "a person moved the card")
        return
    if card.text_hash != work.hold.text_hash and work.policy.restart_on_edit and not landed and not resumed:
        _start_afresh(work, run, card)
        return
    rivals = work.rivals()
    if landed and rivals:
        unread(work, card)
        return
    if rivals and claimed_elsewhere(card, work.identity.installation, now):
        stop(work, run, f"{installation_of(card.claimed_by)} has claimed the card")
        return
    with work.store.write() as uow:
        place = uow.places.take_place(work.policy.poll_id, run.id, work.hold_end(uow.now))
        # Or, when the card is somebody else's by now, no place: their run may be over, and nobody would give it back.
        uow.claims.update(work.hold, shown=work.hold.shown)
    if not place:
        work.let_go(due_in=min(work.board.times.hint_age, timedelta(seconds=5)))
    elif landed:
        go_on(work, run, card)
    elif rivals:
        claim_among_rivals(work, began)
    else:
        written = send_claim(work)
        reach(CrashPoint.claim_acknowledged)
        go_on(work, run, written.card, written.log_id)


def _start_afresh(work: Work, run: Run, card: Card) -> None:
    asked = card_input(card, body="", generation=work.hold.generation + 1, board=work.hold.board)
    with work.store.write() as uow:
        uow.runs.cancel(run.id, "its text was edited while it waited: it starts afresh with the new text")
        uow.places.release_place(run.id)
        uow.claims.reopen(work.hold, card, snapshot(asked), wanted=work.wanted(card))
    work.log.info("edited while it waited", run_id=run.id, decision="new generation")
