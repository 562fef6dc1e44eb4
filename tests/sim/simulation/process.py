"""One process of an installation: the real desk, worker, database and adapter, driven by actors in place of threads."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from pydantic import SecretStr
from simulation.network import Network
from simulation.schedule import Actor, Died, Schedule
from sqlalchemy import Engine

import store.database
from hermes.claim import ClaimingPoll, Desk
from hermes.crash_points import CrashPoint, reach
from hermes.durable.attempts import AttemptOutcome, Attempts, Raised, Returned, TimedOut
from hermes.durable.context import StepInfo, step_info
from hermes.durable.late import LateWriter
from hermes.durable.recorder import Recorder, Unwritten
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.errors import SourceError, StoreUnavailable
from hermes.model.claim import CardInput, ClaimPolicy
from hermes.model.installation import Identity
from hermes.model.json import JSON
from hermes.ports.limiter import Limiter
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard
from sources.notion.config import TimesOverrides
from store.database import Database
from store.unit_of_work import UnitOfWork

TIMES = TimesOverrides(guard=4.0, settle=5.0, wait_out=20.0, hint_age=8.0)
"""Seconds. In the proportions of Notion's: settle a little longer than W, and the wait-out several times that."""
TIMEOUT = 8.0
SETTINGS = EngineSettings(lease=timedelta(seconds=20), suspect_pause=timedelta(seconds=2))
CARD_LEASE = timedelta(minutes=2)
POLL = "tasks"
TICK = 5.0
DUE_CARDS = (
    "SELECT 1 FROM cards WHERE due_at <= :now OR state = 'candidate' "
    "AND EXISTS (SELECT 1 FROM places WHERE run_id IS NULL OR until <= :now) LIMIT 1"
)
DUE_RUNS = (
    "SELECT 1 FROM runs WHERE state IN ('ready', 'waiting') AND due_at <= :now "
    "OR state = 'running' AND lease_until <= :now LIMIT 1"
)

_make_engine = store.database._sqlite_engine
_free: dict[tuple[str, str], list[Engine]] = defaultdict(list)


def _engine(url: str, *, synchronous: str) -> Engine:
    """Making one and compiling its statements takes longer than all it does for a seed: closed ones are used again."""
    free = _free[url, synchronous]
    return free.pop() if free else _make_engine(url, synchronous=synchronous)


store.database._sqlite_engine = _engine


NEXT_CARD = (
    "SELECT min(at) FROM (SELECT due_at AS at FROM cards UNION ALL SELECT held_until FROM cards "
    "UNION ALL SELECT unknown_until FROM cards) WHERE at > :now"
)
NEXT_RUN = (
    "SELECT min(at) FROM (SELECT due_at AS at FROM runs WHERE state IN ('ready', 'waiting') "
    "UNION ALL SELECT lease_until FROM runs WHERE state = 'running') WHERE at > :now"
)


class SimulatedDatabase(Database):
    """The real one; it tells when a transaction is open, and none begins in a process that is dead."""

    def __init__(self, url: str, schedule: Schedule, place: Process | None) -> None:
        super().__init__(url, schedule.clock, lease_clock=schedule.clock)
        self._place = place

    def close(self) -> None:
        super().close()
        url = self.url.render_as_string()
        _free[url, "FULL"].append(self.engine)
        _free[url, "NORMAL"].append(self._bookkeeping)

    @contextmanager
    def _transaction(self, *args: Any, **how: Any) -> Iterator[UnitOfWork]:
        place = self._place
        if place is None:
            with super()._transaction(*args, **how) as unit:
                yield unit
            return
        if place.dead:
            raise Died
        place.inside += 1
        try:
            with super()._transaction(*args, **how) as unit:
                yield unit
        finally:
            place.inside -= 1


class AttemptsInPlace(Attempts):
    """A body runs in the actor that waits for it; its time is the schedule's."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def run(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        info: StepInfo,
        timeout: timedelta,
        late: Callable[[Any], None],
    ) -> AttemptOutcome:
        began, token = self._schedule.now, step_info.set(info)
        outcome: AttemptOutcome
        try:
            outcome = Returned(call(*args, **kwargs))
        except Exception as exc:  # noqa: BLE001 - as in a thread
            outcome = Raised(exc)
        finally:
            step_info.reset(token)
        if self._schedule.now - began <= timeout.total_seconds():
            return outcome
        if isinstance(outcome, Returned):
            late(outcome.value)
        return TimedOut(timeout)


class LateInPlace(LateWriter):
    """Ticks itself a little later, by an actor of its process."""

    def __init__(self, schedule: Schedule, place: Process) -> None:
        super().__init__()
        self._schedule = schedule
        self._place = place
        self._expected = False

    def watch(self, recorder: Recorder, unwritten: Unwritten) -> None:
        super().watch(recorder, unwritten)
        if not self._expected:
            self._expected = True
            wait = self._schedule.random.choice((0.02, 0.02, 0.5))
            self._schedule.spawn(f"{self._place.name}.late", self._once, self._place, after=wait)

    def _once(self) -> None:
        self._expected = False
        with suppress(StoreUnavailable):
            self.tick()


class PatientLimiter(Limiter):
    """One for an installation: nobody calls before a pause is over."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._until = 0.0

    def acquire(self, *, urgent: bool = False) -> None:
        while self._schedule.now < self._until:
            self._schedule.clock.sleep(self._until - self._schedule.now + 0.001)

    def pause(self, seconds: float, reason: str) -> None:
        self._until = max(self._until, self._schedule.now + seconds)

    def paused_until(self) -> None:
        return None


@dataclass(frozen=True)
class DoWork:
    name: str = "work"
    function: str = "sim.work"

    def args(self, card: CardInput) -> dict[str, JSON]:
        return {"card": asdict(card)}


@dataclass
class Installation:
    name: str
    url: str
    policy: ClaimPolicy
    limiter: PatientLimiter
    slots: int
    late: bool
    """Results wait for company, as in a started worker."""
    boots: int = 0
    asks_at: float = 0.0
    """When the board is polled next, by whichever of its processes comes first."""


class Process:
    def __init__(self, schedule: Schedule, network: Network, board_id: str, installation: Installation) -> None:
        installation.boots += 1
        self.name = f"{installation.name}/{installation.boots}"
        self.dead = False
        self.inside = 0
        self.resumes_at = 0.0
        self.installation = installation
        self._schedule = schedule
        self._network = network
        self._board_id = board_id
        self._database = SimulatedDatabase(installation.url, schedule, self)
        self._glance = sqlite3.connect(installation.url.removeprefix("sqlite:///"))
        self._idle: list[Actor] = []
        self._log = structlog.get_logger("simulation")
        self._worker = Worker(self._database, schedule.clock, SETTINGS)
        self._worker._attempts = AttemptsInPlace(schedule)
        if installation.late:
            self._worker._late = LateInPlace(schedule, self)
        self._database.subscribe(self._wake)
        loops: dict[str, Callable[[], None]] = {"desk": self._work_the_desk, "beat": self._beat}
        loops |= {f"slot{n}": partial(self._serve, n) for n in range(installation.slots)}
        for name, loop in loops.items():
            actor = schedule.spawn(f"{self.name}.{name}", loop, self)
            if name != "beat":
                self._idle.append(actor)

    def close(self) -> None:
        self._worker.close()
        self._database.close()
        self._glance.close()

    def _wake(self) -> None:
        for actor in self._idle:
            self._schedule.wake(actor)

    def _rest(self, seconds: float, next_due: str | None = None) -> None:
        """Or until something falls due: as late as a tick of a second would find it."""
        seconds *= self._schedule.random.uniform(0.5, 1.5)
        if next_due is not None:
            at = self._glance.execute(next_due, self._now()).fetchone()[0]
            if at is not None:
                left = datetime.fromisoformat(at).replace(tzinfo=UTC) - self._schedule.clock.now()
                seconds = min(seconds, left.total_seconds() + self._schedule.random.uniform(0, 1))
        self._schedule.pause(seconds, "rest", idle=True)

    def _now(self) -> dict[str, str]:
        return {"now": self._schedule.clock.now().strftime("%Y-%m-%d %H:%M:%S.%f")}

    def _sees(self, statement: str) -> bool:
        """Whether a tick can find anything: one that cannot is left out, for speed alone."""
        return self._glance.execute(statement, self._now()).fetchone() is not None

    # -- in place of its threads

    def _board(self) -> NotionTaskBoard:
        settings = BoardSettings(connection="notion", board=self._board_id)
        connection = NotionConnection(
            token=SecretStr(self.installation.name),
            base_url="http://127.0.0.1:8450",
            timeout_seconds=TIMEOUT,
            times=TIMES,
        )
        limiter, clock = self.installation.limiter, self._schedule.clock
        client = NotionClient(connection, limiter, clock=clock, transport=self._network.transport())
        return NotionTaskBoard("team", settings, client, clock=clock)

    def _work_the_desk(self) -> None:
        board = self._board()
        while "key" not in board.__dict__:
            try:
                _ = board.key
            except SourceError:
                self._rest(TICK)
        poll = ClaimingPoll(self.installation.policy, board.key, DoWork(), lambda _card, _now: True)
        identity = Identity(self.installation.name, self.name.rpartition("/")[2])
        desk = Desk(self._database, lambda: {board.key: board}, lambda: {POLL: poll}, identity, self._schedule.clock)
        with self._database.write() as unit:
            unit.places.set_places(POLL, self.installation.policy.max_concurrent)
        while True:
            if self._schedule.now >= self.installation.asks_at:
                self.installation.asks_at = self._schedule.now + self._schedule.random.uniform(12, 30)
                self._ask(desk, board)
            elif not self._sees(DUE_CARDS):
                self._rest(TICK, NEXT_CARD)
                continue
            try:
                while self._sees(DUE_CARDS) and desk.tick(limit=1):
                    self._schedule.pause(0.0, "desk")
            except Exception:  # noqa: BLE001 -- where a thread of the process goes on too
                self._log.exception("the desk failed")
            self._rest(TICK, NEXT_CARD)

    def _ask(self, desk: Desk, board: NotionTaskBoard) -> None:
        reach(CrashPoint.before_query)
        try:
            desk.ask(board)
        except SourceError:
            return
        except Exception:  # noqa: BLE001 -- where a thread of the process goes on too
            self._log.exception("the poll failed")
        reach(CrashPoint.after_query)

    def _serve(self, number: int) -> None:
        """The first of them looks for dead workers too; it alone looks without being woken."""
        while True:
            try:
                if not self._sees(DUE_RUNS):
                    self._rest(TICK if number == 0 else 5 * TICK, NEXT_RUN if number == 0 else None)
                    continue
                if number == 0:
                    self._worker.rescue()
                taken = self._worker.lease(1)
            except Exception:  # noqa: BLE001 -- where a thread of the process goes on too
                self._log.exception("no runs leased")
                taken = []
            for leased, held in taken:
                self._worker.drive(leased, held)
            if not taken:
                self._rest(TICK if number == 0 else 5 * TICK, NEXT_RUN if number == 0 else None)

    def _beat(self) -> None:
        while True:
            self._schedule.pause(SETTINGS.lease.total_seconds() / 3, "beat", idle=True)
            if not len(self._worker.held):
                continue
            try:
                self._worker.heartbeat()
            except Exception:  # noqa: BLE001 -- where a thread of the process goes on too
                self._log.exception("heartbeat failed")
