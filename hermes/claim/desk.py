"""The loop of the claim protocol: one look after another at cards that are due, then claims while places are free."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from hermes.claim.adopt import show_abandoned
from hermes.claim.claiming import claim, recover, settle
from hermes.claim.finish import finish, review
from hermes.claim.offers import TakenIn, ask
from hermes.claim.retry import GIVING_BACK, give_up, never_in_todo, reclaim, show_retry
from hermes.claim.upkeep import keep
from hermes.claim.work import ClaimingPoll, Work, hold_end, known_alone, too_early
from hermes.clock import Clock
from hermes.errors import Conflict, Fatal, Gone, Retryable, SourceError, UnknownOutcome
from hermes.model.claim import BoardState, CardHold, ClaimPolicy, ClaimState
from hermes.model.installation import Identity
from hermes.model.run import RunState
from hermes.ports.board import TaskBoard
from hermes.ports.claims import StaleHold
from hermes.ports.store import ClaimStore

RECHECK_FATAL = timedelta(minutes=1)
"""How often a card is tried again while only a person can cure its board."""
MOST_ABANDONED = 10
"""Of other installations' claims, told people of at one poll: two calls each."""
SLOWEST = timedelta(minutes=5)
SOON = timedelta(minutes=1)
"""A run that sleeps for longer than this keeps its card while no process is there; a shorter sleep is work that nobody
would do."""


class Desk:
    """Works the cards of some boards. Any number of desks may work the same boards on one database: a card's row is
    held by one at a time. `boards` gives those that could be reached once, by key; `polls` all that are configured,
    first come first served for a card."""

    def __init__(
        self,
        store: ClaimStore,
        boards: Callable[[], Mapping[str, TaskBoard]],
        polls: Callable[[], Mapping[str, ClaimingPoll]],
        identity: Identity,
        clock: Clock,
    ) -> None:
        self._store = store
        self._boards = boards
        self._polls = polls
        self._identity = identity
        self._clock = clock
        self._asking = threading.Lock()
        self._ask_after: dict[str, float] = {}
        """Boot seconds by board: not before, because it has just not answered."""
        self._log = structlog.get_logger("hermes.claim")

    def ask(self, board: TaskBoard) -> TakenIn:
        """Query the board once for all its polls. Raises what the board raises."""
        polls = {poll_id: poll for poll_id, poll in self._polls().items() if poll.board == board.key}
        taken = ask(self._store, board, polls, self._identity)
        if taken.abandoned:
            first = next(iter(polls))
            show_abandoned(self._store, board, self._identity, self._clock, first, taken.abandoned[:MOST_ABANDONED])
        return taken

    def _active_polls(self) -> dict[str, ClaimingPoll]:
        return {poll_id: poll for poll_id, poll in self._polls().items() if poll.active}

    def tick(self, limit: int = 1000) -> int:
        """Do what is due now, at most `limit` things; returns how many were done."""
        done = 0
        while done < limit and (self.look_once() or self.claim_once()):
            done += 1
        return done

    def close(self, limit: int = 10_000) -> None:
        """Before the process ends: show what has ended, and give back to Todo what nobody works on. Cards that sleep
        stay claimed, and so do those of shared boards; a card that another process takes up meanwhile is left to it."""
        for _ in range(limit):
            if not self.look_once():
                break
        policies = {poll_id: poll.policy for poll_id, poll in self._polls().items()}
        for board in self._boards().values():
            with self._store.read() as uow:
                claimed = uow.claims.list(states=[ClaimState.claimed], board=board.key)
                runs = {card.card_id: uow.runs.get(card.run_id) for card in claimed if card.run_id}
                now = uow.now
            for card_id, run in runs.items():
                if run is None or run.held or run.state not in (RunState.ready, RunState.waiting):
                    continue
                if run.due_at is None or run.due_at > now + SOON:
                    continue
                if never_in_todo(run, policies.get(run.poll_id or "")):
                    continue
                with self._store.write() as uow:
                    if not uow.runs.hold(run.id, "nobody works on it: its process was stopped"):
                        continue  # another process has taken it up
                    uow.claims.run_changed(run.id)  # due, should this be interrupted
                    hold = uow.claims.hold_one(board.key, card_id, self._identity.boot_id, hold_end(board, uow.now))
                    if hold is None:
                        uow.runs.release_hold(run.id)
                        continue
                    hold = replace(hold, shown={**hold.shown, GIVING_BACK: True})
                    uow.claims.update(hold, shown=hold.shown)
                self._guarded(self._work(hold, board), partial(give_up, run=run))

    # -- looks

    def look_once(self) -> bool:
        """Take the row that has been due longest and do what its state asks for. False when none is due."""
        boards = self._boards()
        with self._store.read() as uow:
            if not boards or not uow.claims.any_due(list(boards)):
                return False
        with self._store.write() as uow:
            ends = {key: hold_end(board, uow.now) for key, board in boards.items()}
            hold = uow.claims.hold_due(ends, self._identity.boot_id)
        if hold is None:
            return False
        self._guarded(self._work(hold, boards[hold.board]), _look)
        return True

    def _work(self, hold: CardHold, board: TaskBoard) -> Work:
        poll = self._polls().get(hold.poll_id)
        log = self._log.bind(
            poll_id=hold.poll_id, source_object_id=hold.card_id, claim_id=f"{hold.run_id}/{hold.fence}"
        )
        return Work(
            store=self._store,
            board=board,
            policy=poll.policy if poll else ClaimPolicy(hold.poll_id, ""),
            action=poll.action if poll else None,
            wants=poll.wants if poll else None,
            identity=self._identity,
            clock=self._clock,
            log=log,
            hold=hold,
            shown=dict(hold.shown),
        )

    def _guarded(self, work: Work, step: Callable[[Work], None]) -> None:
        """Errors of the board become the time of the next look; the row's state stays what it was."""
        try:
            step(work)
        except StaleHold as stale:
            work.log.info("somebody else holds the card now", reason=str(stale))
        except SourceError as error:
            try:
                self._postpone(work, error)
            except StaleHold as stale:
                work.log.info("somebody else holds the card now", reason=str(stale))

    def _postpone(self, work: Work, error: SourceError) -> None:
        hold = work.hold
        if isinstance(error, Gone):
            self._gone(work, str(error))
            return
        with self._store.write() as uow:
            unknown_until = None
            if isinstance(error, UnknownOutcome):
                wait = work.board.times.wait_out
                unknown_until = uow.now + wait
            elif isinstance(error, Fatal):
                uow.claims.note_board(hold.board, problem=str(error), problem_at=uow.now)
                wait = RECHECK_FATAL
            else:
                asked_for = error.retry_after or 0.0 if isinstance(error, Retryable) else 0.0
                wait = max(timedelta(seconds=asked_for), _backoff(hold.failures, isinstance(error, Conflict)))
            uow.claims.let_go(
                hold,
                due_at=uow.now + wait,
                unknown_until=unknown_until,
                failures=hold.failures + 1,
                note=str(error)[:500],
            )
        work.log.warning("the board call failed", error=str(error), next_in_seconds=wait.total_seconds())

    def _gone(self, work: Work, why: str) -> None:
        """The page cannot be found: its run stops; a restored page in Todo is asked for again."""
        hold = work.hold
        with self._store.write() as uow:
            run = uow.runs.get(hold.run_id) if hold.run_id else None
            running = run is not None and not run.state.final
            if run is not None and running:
                uow.runs.cancel(run.id, why)
            elif hold.run_id is not None:
                uow.places.release_place(hold.run_id)  # of a claim that did not come to a run
            uow.claims.let_go(
                hold,
                due_at=None,
                state=ClaimState.claimed if running else ClaimState.gone,
                settled_at=uow.now,
                note=why,
                verify=False,
            )
            if run is not None and running:
                uow.claims.run_changed(run.id)
        work.log.info("the card is gone", reason=why)

    # -- claims

    def claim_once(self) -> bool:
        """Claim one card for some poll. False when no poll may claim or none has a fresh candidate."""
        return any(self._claim_for(poll) for poll in self._active_polls().values())

    def _claim_for(self, poll: ClaimingPoll) -> bool:
        policy, board = poll.policy, self._boards().get(poll.board)
        if board is None:
            return False
        with self._store.read() as uow:
            state = uow.claims.board(board.key)
            hint = uow.claims.newest_hint(policy.poll_id, board.key)
            if state.stopped_reason or state.problem or hint is None:
                return False
            if uow.places.free_places(policy.poll_id) == 0 or uow.claims.open_count(policy.poll_id) >= policy.max_open:
                return False
            taken = uow.claims.claimed_since(policy.poll_id, state.queried_at or uow.now)
            stale = not _fresh(state, uow.now, board) or (state.queried_at is not None and hint < state.queried_at)
        if not policy.at_once and taken >= policy.max_concurrent:
            return False
        if stale and not (policy.at_once and self._ask_again(board, state)):
            return False
        hold, shared = self._reserve(policy, board)
        if hold is None:
            return False
        self._guarded(self._work(hold, board), lambda work: claim(work, shared=shared))
        return True

    def _ask_again(self, board: TaskBoard, seen: BoardState) -> bool:
        """True when candidates are fresh afterwards. One thread of a process asks, the others wait for its answer."""
        with self._asking:
            with self._store.read() as uow:
                state = uow.claims.board(board.key)
                if state.answered_at != seen.answered_at and _fresh(state, uow.now, board):
                    return True
            if self._clock.boot_seconds() < self._ask_after.get(board.key, 0.0):
                return False
            try:
                self.ask(board)
            except SourceError as error:
                self._log.warning("cannot refresh candidates", board=board.key, error=str(error))
                self._ask_later(board, error)
                return False
            return True

    def _ask_later(self, board: TaskBoard, error: SourceError) -> None:
        """A desk ticks every second or so: a board that does not answer is asked more rarely, and one that only a
        person can cure by its polls alone."""
        asked_for = (error.retry_after or 0.0) if isinstance(error, Retryable) else 0.0
        wait = max(asked_for, board.times.hint_age.total_seconds() / 2)
        self._ask_after[board.key] = self._clock.boot_seconds() + wait
        if isinstance(error, Fatal):
            with self._store.write() as uow:
                uow.claims.note_board(board.key, problem=str(error), problem_at=uow.now)

    def _reserve(self, policy: ClaimPolicy, board: TaskBoard) -> tuple[CardHold | None, bool]:
        run_id = uuid.uuid4().hex
        with self._store.write() as uow:
            state = uow.claims.board(board.key)
            if state.stopped_reason or state.queried_at is None or not _fresh(state, uow.now, board):
                return None, False
            if uow.claims.open_count(policy.poll_id) >= policy.max_open:
                return None, False
            if not uow.places.take_place(policy.poll_id, run_id, hold_end(board, uow.now)):
                return None, False
            hold = uow.claims.reserve(
                board.key,
                policy.poll_id,
                run_id,
                self._identity.boot_id,
                hold_end(board, uow.now),
                fresh_after=state.queried_at,
            )
            if hold is None:
                uow.places.release_place(run_id)
                return None, False
            shared = policy.shared or not known_alone(state)
            if shared:
                # Before anything is sent: whoever takes up an interrupted claim must know that rivals may be there.
                hold = replace(hold, shown={"shared": True})
                uow.claims.update(hold, shown=hold.shown)
            return hold, shared


def _look(work: Work) -> None:
    if early := too_early(work.hold, work.clock):
        with work.store.write() as uow:
            uow.claims.let_go(work.hold, due_at=uow.now + early)
        return
    match work.hold.state:
        case ClaimState.claiming:
            recover(work)
        case ClaimState.settling:
            settle(work)
        case ClaimState.backoff:
            reclaim(work)
        case ClaimState.claimed:
            _look_at_claimed(work)
        case ClaimState.done | ClaimState.gone if work.hold.verify:
            review(work)
        case _:
            work.let_go(due_in=None)


def _look_at_claimed(work: Work) -> None:
    run = work.run()
    if run is None:
        work.let_go(due_in=None, state=ClaimState.done, note="its run is no longer in the database")
    elif run.state.final:
        finish(work, run)
    elif run.held and (never_in_todo(run, work.policy) or _stopped(work)):
        with work.store.write() as uow:
            uow.runs.release_hold(run.id)
            uow.claims.let_go(work.hold, due_at=uow.now)
    elif run.held and (run.state is RunState.waiting or work.hold.shown.get(GIVING_BACK)):
        give_up(work, run)
    elif run.held:
        show_retry(work, run)
    else:
        keep(work, run)


def _stopped(work: Work) -> bool:
    """Another installation was seen here: what stands in Todo it may start too."""
    with work.store.read() as uow:
        return uow.claims.board(work.hold.board).stopped_reason is not None


def _fresh(state: BoardState, now: datetime, board: TaskBoard) -> bool:
    """What the last whole poll showed is still a hint. Counted from its answer: a query may take longer than hints
    last, and would otherwise bring none."""
    return state.answered_at is not None and state.answered_at >= now - board.times.hint_age


def _backoff(failures: int, conflict: bool) -> timedelta:
    """Full jitter, doubling: from one second, or a tenth for conflicts, which clear quickly."""
    first = 0.1 if conflict and failures < 3 else 1.0
    ceiling = min(first * 2 ** min(failures, 16), SLOWEST.total_seconds())
    return timedelta(seconds=ceiling * (0.5 + random.random() / 2))  # noqa: S311 -- spreading, not secrecy
