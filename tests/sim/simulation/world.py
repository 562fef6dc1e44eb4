"""A world of a seed: who lives in it, what befalls them, until people and faults are gone and things are quiet."""

from __future__ import annotations

import gc
import json
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import httpx
import structlog
from pydantic import SecretStr
from simulation import effects, entropy
from simulation.checker import problems, unsettled
from simulation.effects import Services
from simulation.network import Network
from simulation.people import Person
from simulation.process import CARD_LEASE, POLL, SETTINGS, Installation, PatientLimiter, Process, SimulatedDatabase
from simulation.schedule import Actor, Died, Schedule
from sqlmodel import SQLModel

import store.tables  # noqa: F401 -- registers them
from hermes import crash_points
from hermes.crash_points import CrashPoint
from hermes.model.claim import ClaimPolicy
from hermes.model.event import NewEvent
from hermes.model.run import NewRun, RunKind
from sources.board.board import Board
from sources.board.dispatch import Dispatcher
from sources.notion import BoardSettings, NotionClient, NotionConnection
from sources.notion.init import create_board

FAULTS: dict[str, tuple[float, Any]] = {
    "conflict": (0.1, None),
    "rate_limited": (0.05, 3),
    "workspace_limited": (0.03, 4),
    "overloaded": (0.04, 3),
    "unavailable": (0.08, None),
    "unavailable_after": (0.1, None),
    "internal_error": (0.05, None),
    "bad_gateway_after": (0.05, None),
    "drop": (0.08, None),
    "lost": (0.08, None),
    "hang": (0.08, 13),
    "ghost": (0.1, 13),
    "ghost_unavailable": (0.06, 13),
    "truncated": (0.04, None),
    "wrong_json": (0.03, None),
    "query_lag": (0.15, (20, 90)),
    "query_missing": (0.1, 10),
}
"""Names of docs/faults.md with the highest rate, and the value, or some of which a seed picks one."""
MOST_BUSY = 400.0
"""Seconds in which people come and faults strike."""
QUIET = 3600.0
"""Within so many seconds after that everything must be over."""


@dataclass
class Outcome:
    seed: int
    problems: list[str]
    digest: str
    steps: int
    seconds: float
    """Simulated."""
    counts: dict[str, int] = field(default_factory=dict)


def run(seed: int, trace: Callable[[str], None] | None = None) -> Outcome:
    with _folder() as folder, entropy.seeded(seed):
        world = World(seed, folder, trace)
        gc.disable()  # which takes a tenth of the time; there is little to collect before the end
        try:
            return world.live()
        finally:
            world.close()
            gc.enable()


@contextmanager
def _folder() -> Iterator[Path]:
    """Always of the same name in one process, so that what was made for its files is of use again."""
    folder = _template() / "world"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class World:
    def __init__(self, seed: int, folder: Path, trace: Callable[[str], None] | None) -> None:
        self.seed = seed
        self.folder = folder
        self.schedule = schedule = Schedule(seed, trace)
        random = schedule.random
        template = _template()
        shutil.copy(template / "board.db", folder / "board.db")
        self.board = Board(folder / "board.db", clock=schedule.clock)
        self.board_id = (template / "board.id").read_text()
        self.dispatcher = Dispatcher(self.board)
        self.network = Network(schedule, self.dispatcher)
        self.services = Services(schedule)
        effects.use(self.services)
        self.person = Person(schedule, self.network, self.services, self.board_id)
        self.errors: list[str] = []
        self.deaths = self.suspensions = 0
        self._death, self._suspension = random.choice((0.0, 0.004, 0.015)), random.choice((0.0, 0.0, 0.004, 0.01))
        self.shared = random.random() < 0.55
        self.vanishes = self.shared and random.random() < 0.25
        """The other installation dies for good."""
        self.sleeps = not self.vanishes and random.random() < (0.4 if self.shared else 0.1)
        """A whole installation stands still for longer than its claims last."""
        self.hesitation = random.choice((0.1, 1.0, 4.0, 6.0)) if self.shared else random.choice((0.1, 0.1, 5.0))
        """Seconds that a thread may be kept waiting at a crash point."""
        self.processes: list[Process] = []
        self.installations = [self._installation("ours")]
        if self.shared:
            self.installations.append(self._installation("theirs"))
        self._closing: list[Any] = []

    def _installation(self, name: str) -> Installation:
        random = self.schedule.random
        path = self.folder / f"{name}.db"
        shutil.copy(_template() / "hermes.db", path)
        policy = ClaimPolicy(
            POLL,
            "1",
            lease=CARD_LEASE,
            max_concurrent=random.choice((1, 2, 3)),
            comment_on=frozenset({"failed", "parked", "succeeded", "retry"} if random.random() < 0.5 else {"failed"}),
            write_result=random.random() < 0.5,
            read_body=random.random() < 0.2,
            shared=self.shared,
        )
        late, slots = random.random() < 0.5, random.choice((1, 2))
        return Installation(name, f"sqlite:///{path}", policy, PatientLimiter(self.schedule), slots, late)

    # -- its life

    def live(self) -> Outcome:
        schedule, random = self.schedule, self.schedule.random
        schedule.before_step = self._fate
        crash_points.arm(self._reached)
        structlog.configure(processors=[self._listen], cache_logger_on_first_use=False)
        self.services.recorded = self._recorded
        for number in range(random.randint(2, 4)):
            self.person.add(f"card {number}", random.randint(1, 4))
        apart = random.choice((0.5, 5.0))
        for installation in self.installations:
            few = len(self.installations) > 1
            for _ in range(random.choice((1, 2)) if few else random.choice((2, 3))):
                self._start(installation, after=random.uniform(0, apart))
        person = schedule.spawn("person", lambda: self.person.live(random.randint(0, 5)))
        if random.random() < 0.5:
            schedule.spawn("caller", self._call)
        if any(word in program for program in self.person.programs.values() for word in ("event", "race")):
            schedule.spawn("clerk", self._fire)
        self._disturb()
        busy = random.uniform(60, MOST_BUSY)
        if self.vanishes:
            schedule.after(random.uniform(5, 150), self._vanish)
        if self.sleeps:
            schedule.after(random.uniform(5, 60), self._sleep)
        self._until(busy, lambda: person.greenlet.dead and not unsettled(self))
        self._calm()
        self._until(QUIET, lambda: bool(person.greenlet.dead))
        self._restore()
        ended = self._until(QUIET, lambda: not unsettled(self)) and self._until(QUIET, lambda: not unsettled(self))
        found = [*self.errors, *problems(self)]
        if not ended:
            found += [f"not over after {QUIET:.0f} s: {what}" for what in unsettled(self)]
        counts = {
            "cards": len(self.person.asked),
            "effects": len(self.services.changes),
            "events taken": len(self.services.taken),
            "deaths": self.deaths,
            "suspensions": self.suspensions,
            "calls": self.dispatcher.ledger.shown()["total"],
        }
        return Outcome(self.seed, found, schedule.digest(), schedule.steps, schedule.now, counts)

    def close(self) -> None:
        self._death = self._suspension = 0.0
        for process in self.processes:
            self.schedule.kill(process)
            process.close()
        for database in self._closing:
            database.close()
        crash_points.arm(None)
        structlog.reset_defaults()
        self.board.close()

    def _disturb(self) -> None:
        random = self.schedule.random
        plan: dict[str, Any] = {"seed": self.seed}
        for name, (most, value) in FAULTS.items():
            if random.random() < 0.3:
                rate = random.uniform(0.01, most)
                picked = random.choice(value) if isinstance(value, tuple) else value
                plan[name] = rate if picked is None else {"rate": rate, "value": picked}
        self.dispatcher.disturbances.add({"plan": plan})
        self.network.slow = random.choice((0.0, 0.0, 0.05, 0.3))
        self.services.trouble = random.choice((0.0, 0.05, 0.2))
        self.faulty = len(plan) > 1 or self.network.slow > 0 or self.services.trouble > 0

    def _calm(self) -> None:
        self.schedule.note("world", "calm")
        self.dispatcher.disturbances.clear()
        self.network.slow = self.services.trouble = self._death = self._suspension = 0.0
        for process in self.processes:
            process.resumes_at = 0.0
        for installation in self.installations:
            gone = self.vanishes and installation.name == "theirs"
            if not gone and not any(not p.dead for p in self.processes if p.installation is installation):
                self._start(installation)

    def _restore(self) -> None:
        """What people have trashed: they are done."""
        for card_id in sorted(self.person.asked):
            if self.person.look(card_id)["in_trash"]:
                self.person.act(card_id, "trash")

    def _until(self, seconds: float, over: Callable[[], bool]) -> bool:
        end = self.schedule.now + seconds
        while self.schedule.now < end:
            self.schedule.run_until(min(end, self.schedule.now + 20))
            if over():
                return True
        return False

    # -- what befalls processes

    def _start(self, installation: Installation, after: float = 0.0) -> None:
        def begin() -> None:
            if self.vanishes and installation.name == "theirs" and self._vanished:
                return
            self.processes.append(Process(self.schedule, self.network, self.board_id, installation))

        self.schedule.after(after, begin)

    _vanished = False

    def _vanish(self) -> None:
        self._vanished = True
        self.schedule.note("world", "the other installation dies for good")
        for process in self._of("theirs"):
            self.schedule.kill(process)

    def _sleep(self) -> None:
        length = self.schedule.random.uniform(1.0, 2.5) * CARD_LEASE.total_seconds()
        self.schedule.note("world", f"an installation sleeps for {length:.1f} s")
        for process in self._of(self.installations[-1].name):
            process.resumes_at = self.schedule.now + length

    def _of(self, name: str) -> list[Process]:
        return [p for p in self.processes if p.installation.name == name and not p.dead]

    def _fate(self, actor: Actor) -> bool:
        process = actor.place
        if not isinstance(process, Process):
            return True
        if process.dead:
            self.schedule.kill(process)
            return False
        random = self.schedule.random
        chance = random.random() * (20 if actor.idle else 1)
        if chance < self._death:
            self._dies(process)
            self.schedule.kill(process)
            return False
        if chance < self._death + self._suspension:
            self.suspensions += 1
            away = random.uniform(0.3, 3.0) * SETTINGS.lease.total_seconds()
            process.resumes_at = self.schedule.now + away
            self.schedule.note(process.name, f"suspended for {away:.1f} s")
            return False
        return True

    def _dies(self, process: Process) -> None:
        self.deaths += 1
        self.schedule.note(process.name, "dies")
        random = self.schedule.random
        alone = len(self._of(process.installation.name)) == 1
        if alone or random.random() < 0.8:
            self._start(process.installation, after=random.uniform(0.2, 60))

    def _reached(self, point: CrashPoint) -> None:
        actor, random = self.schedule.current, self.schedule.random
        if actor is None or not isinstance(actor.place, Process):
            return
        process = actor.place
        if process.dead:
            raise Died
        if not process.inside:
            longest = self.hesitation if random.random() < 0.3 else 0.0
            self.schedule.pause(random.uniform(0, longest), point.name)
        elif random.random() < self._death:
            self._dies(process)
            process.dead = True
            self.schedule.after(0.0, lambda: self.schedule.kill(process))
            raise Died

    # -- others

    def _open(self, installation: Installation) -> SimulatedDatabase:
        database = SimulatedDatabase(installation.url, self.schedule, None)
        self._closing.append(database)
        return database

    def _fire(self) -> None:
        """Somebody fires the events that cards wait for, here and there twice."""
        random = self.schedule.random
        databases = [self._open(installation) for installation in self.installations]
        wanted = [
            f"{card_id}#{place}"
            for card_id, program in self.person.programs.items()
            for place, word in enumerate(program.split(), 1)
            if word in ("event", "race")
        ]
        for instance in wanted:
            for _ in range(random.choice((0, 1, 1, 2))):
                self.schedule.pause(random.uniform(0, 60), "clerk")
                new = NewEvent("APPROVED", instance, json.dumps(f"{instance}/1"), event_id="1", fired_by="the clerk")
                for database in databases:
                    with database.write() as unit:
                        unit.events.fire(new, max_kept=100)
                self.schedule.note("clerk", f"fires {instance}")

    def _call(self) -> None:
        """Somebody starts work under keys of their own, and again when they hear nothing."""
        database = self._open(self.installations[0])
        for number in range(3):
            while True:
                self.schedule.pause(self.schedule.random.uniform(0.2, 20), "caller")
                new = NewRun(
                    key=f"ask:{number}", kind=RunKind.function, function="sim.errand", args={"about": f"ask:{number}"}
                )
                with database.write() as unit:
                    unit.runs.enqueue(new)
                self.schedule.note("caller", f"asks {number}")
                if self.schedule.random.random() < 0.6:
                    break

    def _listen(self, _logger: object, method: str, event: dict[str, Any]) -> dict[str, Any]:
        if method in ("error", "exception", "critical"):
            self.errors.append(f"{event.get('event')}: {traceback.format_exc(limit=-6)}")
        raise structlog.DropEvent

    def _recorded(self, installation: str, run_id: str, seq: int) -> bool:
        with self.rows(installation) as read:
            row = read("SELECT state FROM steps WHERE run_id = ? AND seq = ?", run_id, seq)
        return bool(row) and row[0][0] == "done"

    def rows(self, installation: str) -> _Rows:
        return _Rows(self.folder / f"{installation}.db")


class _Rows:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)

    def __enter__(self) -> Callable[..., list[Any]]:
        return lambda statement, *values: self._connection.execute(statement, values).fetchall()

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _memory() -> str | None:
    """On a file system in memory waiting for the disk costs nothing; whether it is asked for is asserted elsewhere."""
    memory = Path("/dev/shm")  # noqa: S108
    return str(memory) if memory.is_dir() else None


@cache
def _template() -> Path:
    """A database with every table and an empty board, made once and copied by each world."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-sim-template-", dir=_memory()))
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=1)  # in processes of a pool too
    with entropy.seeded(0):
        schedule = Schedule(0)
        database = SimulatedDatabase(f"sqlite:///{folder / 'hermes.db'}", schedule, None)
        SQLModel.metadata.create_all(database.engine)
        database.close()
        board = Board(folder / "board.db", clock=schedule.clock)
        network = Network(schedule, Dispatcher(board))
        network.travel = lambda: 0.0  # type: ignore[method-assign]
        connection = NotionConnection(token=SecretStr("maker"), base_url="http://127.0.0.1:8450")
        client = NotionClient(connection, PatientLimiter(schedule), clock=schedule.clock, transport=_AtOnce(network))
        made = create_board(client, BoardSettings(connection="notion", board="made here"), title="Team")
        (folder / "board.id").write_text(made.located.data_source_id)
        board.close()
    return folder


class _AtOnce:
    """Answers where no schedule runs."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __enter__(self) -> _AtOnce:
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def handle_request(self, request: Any) -> Any:
        box: list[Any] = []
        self._network.serve(request, request.read(), box.append)
        return httpx.Response(box[0].status_code, headers=box[0].headers, content=bytes(box[0].body))
