"""A claimed card whose run goes on: keep its claim shown, and notice what people do to it."""

from __future__ import annotations

from hermes.claim.expiry import must_extend, next_look, wanted_expiry
from hermes.claim.people import explained, moved
from hermes.claim.work import Work
from hermes.claim.writing import write_card, write_text
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.claim import WriteKind
from hermes.model.installation import installation_of, names_installation
from hermes.model.run import Run, RunState


def keep(work: Work, run: Run) -> None:
    """One look at the card of a live run: zero calls, or one GET when a query disagreed, or one PATCH when due."""
    now = work.clock.now()
    if work.hold.verify and not _observe(work, run, work.board.read(work.hold.card_id)):
        return
    _comment_on_snooze(work, run)
    expires_at = work.hold.board_expires_at
    if must_extend(run, now, work.policy.lease, expires_at):
        values = CardValues(claim_expires_at=wanted_expiry(run, now, work.policy.lease))
        written = write_card(work, WriteKind.extend, values)
        expires_at = written.card.claim_expires_at or values["claim_expires_at"]
        with work.store.write() as uow:
            uow.claims.log_outcome(written.log_id, "applied")
            uow.claims.update(work.hold, board_expires_at=expires_at, settled_at=uow.now)
        if not _observe(work, run, written.card):
            return
    assert expires_at is not None  # noqa: S101 -- must_extend is true without one
    work.let_go(due_in=max(next_look(expires_at, work.policy.lease) - now, work.board.times.hint_age))


def _observe(work: Work, run: Run, card: Card) -> bool:
    """True when the card still stands as we left it. Otherwise people win: the run is asked to stop, and what the card
    then needs is decided when it has stopped."""
    what = moved(card, CardStatus.in_progress) or _given_away(work, run, card)
    if what is None:
        if card.text_hash != work.hold.text_hash:
            _comment_on_edit(work, run, card)
        if card.run_id not in (None, run.id) or not names_installation(card.claimed_by):
            _reassert(work, run, card)
        return True
    with work.store.read() as uow:
        log = uow.claims.log_of(work.hold.board, work.hold.card_id)
    if not card.in_trash and explained(card, log, work.hold.settled_at, work.board.times.wait_out):
        _reassert(work, run, card)  # one of our own writes landed late
        return True
    with work.store.write() as uow:
        uow.runs.cancel(run.id, what)
        uow.claims.let_go(work.hold, due_at=None, note=what, verify=False, failures=0)
        uow.claims.run_changed(run.id)
    work.log.info("a person moved a running card", reason=what, run_id=run.id)
    return False


def _given_away(work: Work, run: Run, card: Card) -> str | None:
    """Another installation claimed it after our own claim had run out on the board: no rival does that by itself, a
    person has moved the card. One that was made while ours ran is a late write of a claim its maker does not start."""
    expired, by = work.hold.board_expires_at, installation_of(card.claimed_by)
    if card.run_id in (None, run.id) or not names_installation(card.claimed_by) or by == work.identity.installation:
        return None
    if expired is None or card.claimed_at is None or card.claimed_at < expired:
        return None
    return f"our claim had expired, and {by} has claimed the card since"


def _reassert(work: Work, run: Run, card: Card) -> None:
    """Somebody wrote over our claim; our database decides. A status that is right is not written: a person may be
    moving the card at this moment."""
    values = CardValues(claimed_by=work.identity.claimed_by, run_id=run.id)
    if card.status is not CardStatus.in_progress:
        values["status"] = CardStatus.in_progress
    written = write_card(work, WriteKind.extend, values)
    with work.store.write() as uow:
        uow.claims.log_outcome(written.log_id, "applied")
        uow.claims.update(work.hold, settled_at=uow.now)


def _comment_on_edit(work: Work, run: Run, card: Card) -> None:
    """The run keeps the text it started with; whoever edited it should know."""
    text = "The text was edited while it was being worked on: the run goes on with the text it started with."
    write_text(
        work,
        WriteKind.comment,
        f"edited/{card.text_hash[:8]}",
        lambda marker, again, send_by: work.board.comment(
            work.hold.card_id, marker, text, again=again, send_by=send_by
        ),
    )


def _comment_on_snooze(work: Work, run: Run) -> None:
    if run.state is not RunState.waiting or "snooze" not in work.policy.comment_on:
        return
    with work.store.read() as uow:
        timeline = uow.runs.timeline(run.id)
    if not timeline or timeline[-1].what != "snooze":
        return  # it sleeps in a delay, or awaits another run
    until = run.due_at.isoformat(timespec="minutes") if run.due_at else "later"
    text = f"Waiting until {until}: {run.reason}"
    write_text(
        work,
        WriteKind.comment,
        f"snooze/{until}",
        lambda marker, again, send_by: work.board.comment(
            work.hold.card_id, marker, text, again=again, send_by=send_by
        ),
    )
