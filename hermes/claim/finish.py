"""A card whose run is over: show how it ended, once, unless a person has decided otherwise."""

from __future__ import annotations

from datetime import timedelta

from hermes.claim.claiming import BY_THE_BOARD, RESUME
from hermes.claim.endings import Shown, ending
from hermes.claim.people import explained
from hermes.claim.start import card_input, snapshot
from hermes.claim.work import Work
from hermes.claim.writing import as_json, write_card, write_text
from hermes.crash_points import CrashPoint, reach
from hermes.errors import Fatal
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import ClaimState, WriteKind
from hermes.model.installation import installation_of, names_installation
from hermes.model.run import Run, RunState
from hermes.ports.runs import Decision


def finish(work: Work, run: Run) -> None:
    """Result into the page, GET, one PATCH, a comment where wanted. Begins again where it was interrupted."""
    reach(CrashPoint.run_ended)
    shown = ending(run, work.clock.now())
    if shown.result is not None and work.policy.write_result:
        text = shown.result
        write_text(
            work,
            WriteKind.result,
            "result",
            lambda marker, again, send_by: work.board.write_result(
                work.hold.card_id, marker, text, again=again, send_by=send_by
            ),
        )
    card = work.board.read(work.hold.card_id)
    if card.in_trash:
        _close(work, ClaimState.gone, "the card was put in the trash")
    elif _shows(card, run, shown):
        _tell(work, run, shown)  # our own write had landed, or a person meant the same
        _close(work, ClaimState.done, None)
    elif run.state is RunState.cancelled and _theirs(work, run, card):
        _close(work, ClaimState.done, f"{installation_of(card.claimed_by)} has the card now")
    elif card.status is work.expected_status or _late_write_of_ours(work, card):
        _write_ending(work, run, shown, card)
    elif card.status is CardStatus.todo:
        ask_again(work, run, card)
    else:
        _close(work, ClaimState.done, f"a person moved the card to {card.status_name or 'no status'}: it stays there")


def review(work: Work) -> None:
    """A query showed a card in Todo that we had finished with: only a GET may ask for it again. Or one that was gone is
    back as it was."""
    card = work.board.read(work.hold.card_id)
    run = work.run()
    as_it_was = card.status is CardStatus.in_progress and card.run_id == work.hold.run_id
    if card.in_trash:
        _close(work, ClaimState.gone, "the card was put in the trash")
    elif work.hold.state is ClaimState.gone and as_it_was:
        # Its claim was under way, or its run is over and nobody has seen how.
        work.let_go(due_in=timedelta(0), state=ClaimState.claimed if run else ClaimState.claiming, note="it is back")
    elif card.status is not CardStatus.todo:
        work.let_go(due_in=None, state=ClaimState.done)
    elif run is not None and _late_write_of_ours(work, card):
        _write_ending(work, run, ending(run, work.clock.now()), card)
    else:
        ask_again(work, run, card)


def ask_again(work: Work, run: Run | None, card: Card) -> None:
    """A person put it back to Todo: a parked run goes on under its key, anything else starts as a new generation."""
    # On a shared board another installation may have done it since, under its RunId; elsewhere a RunId that differs
    # was written or cleared by a person, and must not cost the key.
    ours = not work.policy.shared or (run is not None and card.run_id in (None, run.id))
    if run is not None and run.state is RunState.parked and ours:
        with work.store.write() as uow:
            uow.runs.resume(run.id, decision=Decision.again, held=True, by="the board")
            uow.claims.let_go(
                work.hold,
                due_at=uow.now,
                state=ClaimState.backoff,
                shown={RESUME: BY_THE_BOARD},
                note="moved back to Todo",
                verify=False,
                failures=0,
            )
        return
    asked = card_input(card, body="", generation=work.hold.generation + 1, board=work.hold.board)
    with work.store.write() as uow:
        uow.claims.reopen(work.hold, card, snapshot(asked), wanted=work.wanted(card))
    work.log.info("asked for again by a person", generation=work.hold.generation + 1)


def _tell(work: Work, run: Run, shown: Shown) -> None:
    """A comment tells more, but the status is what people need: a board that refuses comments keeps none back."""
    if run.state.value not in work.policy.comment_on:
        return
    try:
        write_text(
            work,
            WriteKind.comment,
            f"{run.state.value}/{run.deliveries}",
            lambda marker, again, send_by: work.board.comment(
                work.hold.card_id, marker, shown.comment, again=again, send_by=send_by
            ),
        )
    except Fatal as error:
        work.log.warning("the board refuses comments", error=str(error))


def _shows(card: Card, run: Run, shown: Shown) -> bool:
    wanted = shown.values["status"]
    alike = {wanted, CardStatus.failed} if wanted is CardStatus.attention else {wanted}
    return card.status in alike and card.run_id == run.id


def _late_write_of_ours(work: Work, card: Card) -> bool:
    with work.store.read() as uow:
        log = uow.claims.log_of(work.hold.board, work.hold.card_id)
    return explained(card, log, work.hold.settled_at, work.board.times.wait_out)


def _theirs(work: Work, run: Run, card: Card) -> bool:
    """Another installation's claim stands where ours did. Of a run that has done its work it is a late write (its maker
    starts nothing by it), and our ending is shown; of one that was stopped it is a claim like any other."""
    foreign = names_installation(card.claimed_by) and installation_of(card.claimed_by) != work.identity.installation
    return foreign and card.run_id != run.id


def _write_ending(work: Work, run: Run, shown: Shown, card: Card) -> None:
    values = shown.values
    if card.run_id != run.id:  # somebody wrote over our claim: the ending says whose it is
        values = CardValues(**values, claimed_by=work.identity.claimed_by, run_id=run.id)
    written = write_card(work, WriteKind.finish, values)
    reach(CrashPoint.before_release)
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
        uow.claims.update(work.hold, settled_at=uow.now)
    _tell(work, run, shown)
    with work.store.write() as uow:
        uow.claims.let_go(
            work.hold,
            due_at=None,
            state=ClaimState.done,
            board_expires_at=None,
            note=run.reason,
            verify=False,
            failures=0,
        )
    work.log.info("card finished", run_id=run.id, decision=run.state.value, wanted=as_json(values).get("status"))


def _close(work: Work, state: ClaimState, note: str | None) -> None:
    work.let_go(due_in=None, state=state, settled_at=work.clock.now(), board_expires_at=None, note=note)
    work.log.info("card left as it is", decision=state.value, reason=note)
