"""What a step of the protocol is given: one held card, its board, its poll, and the ways to let it go again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from hermes.clock import Clock, machine_boot
from hermes.errors import HermesError
from hermes.model.card import Card, CardStatus
from hermes.model.claim import BoardState, CardHold, ClaimPolicy, ClaimState
from hermes.model.installation import Identity
from hermes.model.json import JSON
from hermes.model.run import Run
from hermes.ports.actions import CardAction
from hermes.ports.board import TaskBoard
from hermes.ports.store import ClaimStore

NOT_BEFORE = "not_before"


@dataclass(frozen=True, slots=True)
class ClaimingPoll:
    """A poll that claims cards of one board."""

    policy: ClaimPolicy
    board: str
    """`TaskBoard.key`."""
    action: CardAction
    wants: Callable[[Card, datetime], bool]
    """The poll's filter. May raise HermesError for a card it cannot judge: that card is not wanted, and said so."""
    active: bool = True
    """A paused or disabled poll claims nothing; what it has claimed goes on."""


@dataclass(slots=True)
class Work:
    store: ClaimStore
    board: TaskBoard
    policy: ClaimPolicy
    action: CardAction | None
    """None when the poll was taken out of the configuration: its open cards are finished, none is claimed."""
    identity: Identity
    clock: Clock
    log: FilteringBoundLogger
    hold: CardHold
    wants: Callable[[Card, datetime], bool] | None = None
    """The poll's filter."""
    shown: dict[str, JSON] = field(default_factory=dict)
    """Working copy of `hold.shown`."""

    def hold_end(self, now: datetime) -> datetime:
        """A hold outlasts any write sent under it: the next holder's GET sees what landed."""
        return hold_end(self.board, now)

    def run(self) -> Run | None:
        if self.hold.run_id is None:
            return None
        with self.store.read() as uow:
            return uow.runs.get(self.hold.run_id)

    def rivals(self) -> bool:
        """Whether another installation may be at work on this board: it is shared, or was not seen to be ours alone."""
        if self.policy.shared:
            return True
        with self.store.read() as uow:
            return not known_alone(uow.claims.board(self.board.key))

    def wanted(self, card: Card) -> bool:
        """Whether the poll would have it now. If not, another query may find one that does."""
        try:
            return self.wants is not None and self.wants(card, self.clock.now())
        except HermesError:
            return False

    def let_go(self, *, due_in: timedelta | None, **changes: Any) -> None:
        """End the hold; look again after `due_in`, or not before somebody asks."""
        with self.store.write() as uow:
            due_at = None if due_in is None else uow.now + due_in
            uow.claims.let_go(self.hold, due_at=due_at, verify=False, failures=0, **changes)

    @property
    def expected_status(self) -> CardStatus:
        """Where the board shows a card of ours in this state."""
        return CardStatus.todo if self.hold.state is ClaimState.backoff else CardStatus.in_progress


def known_alone(state: BoardState) -> bool:
    """One whole poll before the newest has seen no other installation, and the newest neither."""
    return state.alone_since is not None and state.queried_at is not None and state.queried_at > state.alone_since


def not_before(clock: Clock, wait: timedelta) -> dict[str, JSON]:
    """For `CardHold.shown`: a wait that rivals on other machines count on, by a clock that nobody sets. `due_at` goes
    by the wall clock, which may be set forward meanwhile."""
    return {NOT_BEFORE: [machine_boot(), clock.boot_seconds() + wait.total_seconds()]}


def too_early(hold: CardHold, clock: Clock) -> timedelta:
    """What is left of such a wait, where it was begun on this machine since it was started; else the wall clock's word
    stands."""
    noted = hold.shown.get(NOT_BEFORE)
    if not isinstance(noted, list) or noted[0] != machine_boot():
        return timedelta(0)
    return timedelta(seconds=max(0.0, float(cast(float, noted[1])) - clock.boot_seconds()))


def hold_end(board: TaskBoard, now: datetime) -> datetime:
    return now + 2 * board.times.wait_out
