"""What people do to polls and runs, for the command line and pages alike: each is one transaction and says what it did.

Nothing here formats or asks; nothing here is done twice when it is asked for twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hermes.app import App
from hermes.claim.adopt import Adopted, ForeignClaim, adopt, foreign_claims
from hermes.errors import HermesError
from hermes.model.claim import OPEN_STATES, BoardState, ClaimRecord, ClaimState
from hermes.model.run import Run, RunKind, RunState, TimelineEntry
from hermes.model.step import Step
from hermes.ports.polls import Occurrence, Poll, PollStatus
from hermes.ports.retries import StepRetried
from hermes.ports.runs import Decision, Resumed
from hermes.ports.survey import BoardWrite, Receipt, WaitFor

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork


class NotFound(HermesError):
    """There is no such thing, or a name means several; the text lists what is near."""


class NotPossible(HermesError):
    """It cannot be done to this one; the text says why."""


# -- polls


@dataclass(frozen=True, slots=True)
class PollView:
    """A poll as its row and its cards tell."""

    poll: Poll
    board: str | None
    """Its name in hermes.yaml."""
    file: str | None
    waiting: int
    claimed: int
    stopped: str | None
    """Why nothing is claimed on its board."""

    @property
    def health(self) -> str:
        return "stopped" if self.stopped and self.poll.health in ("ok", "new") else self.poll.health


@dataclass(frozen=True, slots=True)
class Polls:
    views: tuple[PollView, ...]
    unstarted: tuple[str, ...]
    """In the configuration, and never seen by a process of this database."""
    now: datetime


def polls(app: App, *, removed: bool = False) -> Polls:
    configured = app.configuration.polls
    if not app.database_exists():
        return Polls((), tuple(configured), app.clock.now())
    with app.store.read() as uow:
        rows = uow.polls.all(removed=removed)
        cards = uow.survey.cards_by_state()
        boards = uow.survey.boards()
        now = uow.now
    views = []
    for row in rows:
        found = configured.get(row.poll_id)
        counts = cards.get(row.poll_id, {})
        views.append(
            PollView(
                poll=row,
                board=found.board if found else None,
                file=found.file if found else None,
                waiting=counts.get(ClaimState.candidate, 0),
                claimed=sum(counts.get(state, 0) for state in OPEN_STATES),
                stopped=_stopped(boards, found.board if found else None),
            )
        )
    known = {row.poll_id for row in rows}
    return Polls(tuple(views), tuple(name for name in configured if name not in known), now)


def _stopped(boards: Sequence[BoardState], name: str | None) -> str | None:
    return next((board.stopped_reason for board in boards if name and board.name == name), None)


def poll(app: App, name: str) -> tuple[PollView, tuple[Occurrence, ...], datetime]:
    """Raises NotFound."""
    every = polls(app, removed=True)
    for view in every.views:
        if view.poll.poll_id == name:
            with app.store.read() as uow:
                return view, tuple(uow.polls.occurrences(name)), every.now
    if name in every.unstarted:
        raise NotFound(f"The poll {name} is configured and no process has seen it yet: start `hermes-poll up`.")
    known = [view.poll.poll_id for view in every.views]
    raise NotFound(f"There is no poll {name!r}.{near_misses(name, [*known, *every.unstarted])}")


def change_poll(app: App, name: str, what: str) -> bool:
    """`what`: run, pause or resume. True: done; False: it was so already. Raises NotFound, NotPossible."""
    view, _, _ = poll(app, name)
    status = view.poll.status
    with app.store.write() as uow:
        done = {"run": uow.polls.run_now, "pause": uow.polls.pause, "resume": uow.polls.resume}[what](name)
    if done:
        return True
    if status is PollStatus.removed:
        raise NotPossible(f"The poll {name} has no file any more.")
    if status is PollStatus.off:
        raise NotPossible(
            f"The poll {name} is switched off in {view.file or 'its file'} (`enabled: false`): change it there."
        )
    return False


# -- runs


def find_card(app: App, text: str) -> str:
    """The id of the card with this id or title. Raises NotFound."""
    with app.store.read() as uow:
        cards = uow.survey.find_cards(text.strip())
        if not cards:
            known = [card.title for card in uow.claims.list()[:500]]
            raise NotFound(f"There is no card with the id or title {text!r}.{near_misses(text, known)}")
    if len(cards) > 1:
        lines = [f"  {card.card_id}  {card.title}" for card in cards]
        raise NotFound("\n".join([f"{text!r} means several cards; say which:", *lines]))
    return cards[0].card_id


def steps_in_doubt(app: App, run_id: str) -> tuple[Step, ...]:
    """Steps of the run, and of runs it awaits, whose outcome nobody knows."""
    with app.store.read() as uow:
        runs = [run_id, *(step.awaits_run_id for step in uow.runs.steps(run_id) if step.awaits_run_id)]
        return tuple(step for run in runs for step in uow.runs.steps(run) if step.outcome_unknown)


def find_run(app: App, text: str) -> Run:
    """By id, unique beginning of one, key, card id or title; of a card, its newest run. Raises NotFound."""
    text = text.strip()
    with app.store.read() as uow:
        found = uow.survey.find_runs(text) if text else []
        if not found:
            recent = uow.runs.list(limit=200)
            titles = [card.title for card in uow.claims.list()[:500]]
            names = [*(run.id for run in recent), *(run.key for run in recent), *titles]
            raise NotFound(f"There is no run with the id, key, card or title {text!r}.{near_misses(text, names)}")
        of_one_object = found[0].object_id is not None and len({run.object_id for run in found}) == 1
        if len(found) > 1 and not of_one_object:
            lines = [f"  {run.id}  {run.state}  {run.key}" for run in found]
            raise NotFound("\n".join([f"{text!r} means several runs; say which:", *lines]))
        return next((run for run in found if run.kind is RunKind.card), found[0])


@dataclass(frozen=True, slots=True)
class RunStory:
    """Everything the database knows of a run."""

    run: Run
    card: ClaimRecord | None
    owns_card: bool
    """False: the card has gone on to another run."""
    timeline: tuple[TimelineEntry, ...]
    steps: tuple[Step, ...]
    children: tuple[Run, ...]
    awaited_by: tuple[str, ...]
    board_log: tuple[BoardWrite, ...]
    receipts: tuple[Receipt, ...]
    waits: tuple[WaitFor, ...]
    """What it waits for now."""
    now: datetime


def story(app: App, run: Run) -> RunStory:
    with app.store.read() as uow:
        card = uow.survey.card(run.object_id) if run.object_id else None
        return RunStory(
            run=run,
            card=card,
            owns_card=card is not None and card.run_id == run.id,
            timeline=tuple(uow.runs.timeline(run.id)),
            steps=tuple(uow.runs.steps(run.id)),
            children=tuple(uow.runs.children(run.id)),
            awaited_by=tuple(uow.survey.awaiting(run.id)),
            board_log=tuple(uow.survey.board_log(run.object_id, run.id)) if run.object_id else (),
            receipts=tuple(uow.survey.receipts(run.id)),
            waits=tuple(uow.survey.waits_of([run.id]).get(run.id, ())) if run.state is RunState.waiting else (),
            now=uow.now,
        )


def resume_run(
    app: App,
    run_id: str,
    *,
    decision: Decision | None = None,
    result_json: str | None = None,
    by: str,
    dry_run: bool = False,
) -> Resumed:
    """Continue a failed, parked or cancelled run under its key. A card's run waits until its card is claimed again; a
    run that is awaited by a card's run brings that one along. Raises NotPossible when the card has gone on without."""
    with _changing(app, dry_run=dry_run) as uow:
        parked = _parked_above(uow, run_id)
        resumed = uow.runs.resume(
            run_id, held=_holds_card(uow, run_id), decision=decision, result_json=result_json, by=by
        )
        if resumed is Resumed.resumed:
            _claim_again(uow, run_id)
            for parent in parked:
                _claim_again(uow, parent)
    return resumed


def retry_step(app: App, run_id: str, seq: int, *, by: str, dry_run: bool = False) -> StepRetried:
    """New attempts for a failed step, or one in doubt, of a run that has stopped; the run is resumed. What is not
    granted has changed nothing. Raises NotPossible as `resume_run`."""
    with _changing(app, dry_run=dry_run) as uow:
        parked = _parked_above(uow, run_id)
        came = uow.runs.retry_step(run_id, seq, held=_holds_card(uow, run_id), by=by)
        if came is not StepRetried.granted:
            raise _OnlyTried
        for claimed in (run_id, *parked):
            _claim_again(uow, claimed)
    return came


def _parked_above(uow: UnitOfWork, run_id: str) -> list[str]:
    """Runs that are parked because this one is: those that await it, those that await them, and so on."""
    found: list[str] = []
    looking = [run_id]
    while looking:
        for parent in uow.survey.awaiting(looking.pop()):
            run = uow.runs.get(parent)
            if run is not None and run.state is RunState.parked and parent not in found:
                found.append(parent)
                looking.append(parent)
    return found


def _holds_card(uow: UnitOfWork, run_id: str) -> bool:
    run = uow.runs.get(run_id)
    return run is not None and run.kind is RunKind.card


def _claim_again(uow: UnitOfWork, run_id: str) -> None:
    run = uow.runs.get(run_id)
    if run is None or run.kind is not RunKind.card or run.state is not RunState.ready:
        return
    if not run.held:  # resumed along with the run it awaits
        uow.runs.hold(run_id, "waits until its card is claimed again")
    if not uow.claims.resume(run_id):
        card = uow.survey.card(run.object_id) if run.object_id else None
        newer = f": its card is with the run {card.run_id} now" if card and card.run_id else ""
        raise NotPossible(f"The run {run_id} cannot be resumed{newer}. Nothing was changed.")


def cancel_run(app: App, run_id: str, reason: str, *, dry_run: bool = False) -> RunState | None:
    """What it is after: `cancelled`, or `running` when it stops at its next step. None: it was over already."""
    with _changing(app, dry_run=dry_run) as uow:
        done = uow.runs.cancel(run_id, reason)
        run = uow.runs.get(run_id)
    return run.state if run and done else None


class _OnlyTried(Exception):
    pass


@contextmanager
def _changing(app: App, *, dry_run: bool) -> Iterator[UnitOfWork]:
    """A writing transaction. Of a dry run nothing stays, so that it says exactly what the change would."""
    with suppress(_OnlyTried), app.store.write() as uow:
        yield uow
        if dry_run:
            raise _OnlyTried


def near_misses(text: str, known: Sequence[str]) -> str:
    folded = {name.casefold(): name for name in known if name}
    near = get_close_matches(text.casefold(), folded, n=3, cutoff=0.5)
    near += [name for name in folded if text.casefold() in name and name not in near][: 3 - len(near)]
    return f" Did you mean {', '.join(repr(folded[name]) for name in near)}?" if near else ""


# -- boards


def board_named(app: App, name: str | None) -> str:
    """The only board when none is named. Raises NotFound."""
    known = list(app.configuration.boards)
    if name is None and len(known) == 1:
        return known[0]
    if name is None:
        raise NotFound(f"Say which board: {', '.join(known)}." if known else "There is no board in hermes.yaml.")
    if name not in known:
        raise NotFound(f"There is no board {name!r} in hermes.yaml.{near_misses(name, known)}")
    return name


@dataclass(frozen=True, slots=True)
class Adoption:
    """What `board adopt` would do, or did."""

    board: str
    stopped: str | None
    claims: tuple[ForeignClaim, ...]
    disabled: tuple[str, ...]
    """Polls that were disabled because the board was stopped."""


def look_at_foreign_claims(app: App, name: str) -> Adoption:
    """Asks the board once. Raises SourceError."""
    board = app.reach(name)
    found = foreign_claims(app.store, board, app.identity, shared=_shared(app, name))
    with app.store.read() as uow:
        stopped = uow.claims.board(board.key).stopped_reason
        disabled = tuple(
            poll.poll_id
            for poll in uow.polls.all()
            if poll.poll_id in _polls_of(app, name)
            and poll.status is PollStatus.disabled
            and "hermes-poll board adopt" in (poll.disabled_reason or "")
        )
    return Adoption(name, stopped, tuple(found), disabled)


def adopt_board(app: App, adoption: Adoption) -> Adopted:
    """Gives those cards back to Todo, lets the board be claimed again, its polls run at once. Raises NotPossible."""
    watching = _polls_of(app, adoption.board)
    if not watching:
        raise NotPossible(f"No poll watches the board {adoption.board}: nobody would claim what is given back.")
    board = app.reach(adoption.board)
    done = adopt(app.store, board, app.identity, app.clock, watching[0], adoption.claims)
    if done.complete:
        with app.store.write() as uow:
            for poll_id in watching:
                if poll_id in adoption.disabled:
                    uow.polls.resume(poll_id)
                else:
                    row = uow.polls.get(poll_id)
                    if row is not None and row.status is PollStatus.active:
                        uow.polls.run_now(poll_id)
    return done


def _shared(app: App, name: str) -> bool:
    return app.board_settings(name).mode == "shared"


def _polls_of(app: App, name: str) -> list[str]:
    return [poll.id for poll in app.configuration.polls.values() if poll.board == name]


def claims(app: App, *, board: str | None = None, every: bool = False) -> tuple[tuple[ClaimRecord, ...], datetime]:
    """Cards that wait or are claimed; with `every` also those that are done with. Newest change first."""
    with app.store.read() as uow:
        keys = {row.name: row.board for row in uow.survey.boards()}
        states = () if every else (ClaimState.candidate, *OPEN_STATES)
        if board is not None and board not in keys:
            return (), uow.now
        found = uow.claims.list(states=states, board=keys[board] if board else None)
        return tuple(found), uow.now
