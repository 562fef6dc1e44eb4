"""What sleeping runs cost: RAM and disk of each, the start of a worker beside them, its idle tick, and how late it is
when many are due at once. Sleepers are put there by a worker that really drove them to sleep; where `driven` bounds
how many, the others are copies of their rows (bench/copies.py).

At scale Hermes alone: 50,000 delays and 10,000 waits for an event. Beside the others fewer, of one recorded step and a
sleep: what DBOS and Temporal put to sleep in a few minutes.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from sqlalchemy import func, select

from bench.contender import ROOT, Contender, Trial
from bench.copies import copy
from bench.databases import Databases
from bench.process import processor_seconds, resident
from bench.table import Table
from bench.ticks import Ticks, tick_cost
from hermes.clock import SystemClock
from store.database import Database, database_url
from store.tables.events import WAITS
from store.tables.runs import RUNS, TIMELINE

SETTLE = 5.0
PATIENCE = 600.0
HEARD_EVERY = 6.0
"""Seconds: the lease while 1,000 timers are due, so that one that is not renewed would be seen to lapse."""
MEGA = 1e6


@dataclass(frozen=True)
class Fresh:
    """A worker process that has just been started beside the sleepers and has nothing to do."""

    start_seconds: float
    """From the start of the process to the first step of a job that was due."""
    start_cpu: float
    """Seconds of processor until then: what the start costs on a machine that does nothing else."""
    resident: int
    idle_cpu: float
    """Seconds of processor in a minute."""


@dataclass(frozen=True)
class Level:
    sleepers: int
    waiting: int
    start_seconds: float
    start_cpu: float
    resident: int
    idle_cpu: float
    disk: int
    ticks: Ticks


@dataclass(frozen=True)
class Timers:
    leased: list[float]
    """Seconds after they were due."""
    stepped: list[float]
    lapses: int
    """Take-overs of the run that was at work meanwhile."""
    lease_left: float
    """The least that was seen of its lease, in seconds."""


class Beds:
    """One contender's database, more and more of whose jobs sleep."""

    def __init__(self, contender: Contender, databases: Databases, slots: int) -> None:
        self.contender = contender
        self.url = databases.fresh(contender.database)
        self._databases = databases
        self._slots = slots
        self._numbers = itertools.count(1)

    def trial(self, kind: str, jobs: int, **more: Any) -> Trial:
        first = next(self._numbers) * 1_000_000
        return Trial(
            self.contender,
            self.url,
            self._databases.folder,
            jobs=jobs,
            slots=self._slots,
            kind=kind,
            first=first,
            **more,
        )

    @contextmanager
    def put(self, kind: str, count: int) -> Iterator[int]:
        """Drive so many to sleep; yields the worker that did."""
        trial = self.trial(kind, count)
        trial.enqueue()
        before = self.asleep() if self.is_hermes else 0  # nobody drives them yet
        with trial.working() as process:
            if self.is_hermes:
                eventually(lambda: self.asleep() >= before + count)
            elif not trial.wait_for(count, PATIENCE):
                raise RuntimeError(f"{self.contender.key}: not asleep; see {trial.output.read_text()[-2000:]}")
            time.sleep(SETTLE)
            yield process.pid

    @property
    def is_hermes(self) -> bool:
        return self.contender.name == "Hermes"

    def asleep(self) -> int:
        return int(self._ask(select(func.count()).select_from(RUNS).where(RUNS.c.state == "waiting"))[0][0])

    def open_waits(self) -> int:
        return int(self._ask(select(func.count()).select_from(WAITS))[0][0])

    def _ask(self, query: Any) -> Any:
        with opened(self.url) as database, database.read() as unit:
            return unit.connection.execute(query).all()

    def fresh(self, idle_seconds: float) -> Fresh:
        kind = "steps" if self.is_hermes else "sleep"
        probe = self.trial(kind, 1)
        probe.enqueue()
        began = time.monotonic()
        with probe.working() as process:
            if not probe.wait_for(1, PATIENCE):
                raise RuntimeError(f"{self.contender.key}: no start; see {probe.output.read_text()[-2000:]}")
            start_cpu = processor_seconds(process.pid)
            started = min(line.at for line in probe.seen()) - began
            time.sleep(SETTLE)
            used = processor_seconds(process.pid)
            time.sleep(idle_seconds)
            used = processor_seconds(process.pid) - used
            return Fresh(started, start_cpu, resident(process.pid), used * 60 / idle_seconds)

    def disk(self) -> int:
        return self._databases.size(self.url)


@contextmanager
def opened(url: str) -> Iterator[Database]:
    shown = url if url.startswith("postgresql://") else f"sqlite:///{url}"
    with closing(Database(database_url(shown).render_as_string(hide_password=False), SystemClock())) as database:
        yield database


def eventually(true: Any, seconds: float = 3600.0) -> None:
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise RuntimeError("it did not come")
        time.sleep(0.5)


def level(beds: Beds, idle_seconds: float, starts: int = 3) -> Level:
    found = [beds.fresh(idle_seconds if number == 0 else 0.1) for number in range(starts)]
    with opened(beds.url) as database:
        ticks = tick_cost(database)
    return Level(
        beds.asleep(),
        beds.open_waits(),
        median(one.start_seconds for one in found),
        median(one.start_cpu for one in found),
        int(median(one.resident for one in found)),
        found[0].idle_cpu,
        beds.disk(),
        ticks,
    )


def timers(beds: Beds, count: int) -> Timers:
    """All due at the same instant, while another run is at work whose short lease must not lapse."""
    until = time.time() + 30 + count / 20
    beds.trial("long", 1, until=until).enqueue()
    until_monotonic = time.monotonic() + until - time.time()
    trial = beds.trial("timer", count, until=until, timeout=HEARD_EVERY)
    trial.enqueue()
    left = HEARD_EVERY
    asleep = select(func.count()).select_from(RUNS).where(RUNS.c.function == "bench.timer", RUNS.c.state == "waiting")
    lease = select(RUNS.c.lease_until).where(RUNS.c.function == "bench.long", RUNS.c.state == "running")
    with opened(beds.url) as database, trial.working():

        def rows(query: Any) -> Any:
            with database.read() as unit:
                return unit.connection.execute(query).all()

        def watch() -> None:
            nonlocal left
            for (lease_until,) in rows(lease):
                left = min(left, lease_until.timestamp() - time.time())

        eventually(lambda: rows(asleep)[0][0] == count, until - time.time() - 1)
        while len(trial.seen()) < count + 1 and time.time() < until + 60:
            watch()
            time.sleep(0.2)
        stepped = sorted(line.at - until_monotonic for line in trial.seen() if line.job >= trial.first)
        began = (
            select(func.max(TIMELINE.c.at))
            .join(RUNS, RUNS.c.id == TIMELINE.c.run_id)
            .where(RUNS.c.function == "bench.timer", TIMELINE.c.what == "leased")
            .group_by(RUNS.c.id)
        )
        leased = sorted(at.timestamp() - until for (at,) in rows(began))
        taken = select(func.sum(RUNS.c.take_overs + RUNS.c.crashes)).where(RUNS.c.function == "bench.long")
        lapses = int(rows(taken)[0][0])
    return Timers(leased, stepped, lapses, left)


def import_seconds() -> float:
    took = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import bench.contenders.hermes_runs"], cwd=ROOT, check=True)
        took.append(time.monotonic() - began)
    return median(took)


def at_scale(
    contender: Contender,
    databases: Databases,
    *,
    sleepers: int,
    waiting: int,
    due: int,
    driven: int,
    slots: int,
    idle: float,
) -> tuple[list[Level], Timers]:
    beds = Beds(contender, databases, slots)
    beds.trial("steps", 0).enqueue()  # makes the tables
    levels = [level(beds, idle)]
    print(f"    {levels[-1]}")
    some = min(10_000, sleepers // 2)
    for kind, count in (("nap", some), ("nap", sleepers - some), ("wait", waiting)):
        began = time.monotonic()
        with beds.put(kind, min(count, driven)):
            pass
        if count > driven:
            with opened(beds.url) as database:
                copy(database, f"bench.{kind}", count - driven)
        print(f"    {contender.key}: {count} more of kind {kind} asleep after {time.monotonic() - began:.0f} s")
        levels.append(level(beds, idle))
        print(f"    {levels[-1]}")
    return levels, timers(beds, due)


def measure(
    contenders: list[Contender],
    databases: Databases,
    *,
    sleepers: int,
    waiting: int,
    due: int,
    beside: int,
    driven: int,
    slots: int,
    idle: float = 30.0,
) -> tuple[list[Table], dict[str, Any]]:
    raw: dict[str, Any] = {"imports": import_seconds(), "scale": {}, "beside": {}}
    scale = Table(
        "Sleeping runs of Hermes: what a worker that is started beside them costs",
        [
            "database",
            "asleep",
            "of them waits",
            "start to first step",
            "its cpu",
            "RAM MB",
            "RAM B/run",
            "disk MB",
            "disk B/run",
            "idle cpu s/min",
            "idle tick",
        ],
    )
    late = Table(
        f"{due} timers due at one instant beside them",
        [
            "database",
            "leased p50",
            "leased p99",
            "leased last",
            "first step p50",
            "p99",
            "last",
            "early",
            "lapses",
            "least lease left",
        ],
    )
    for contender in (one for one in contenders if one.name == "Hermes" and sleepers):
        levels, fired = at_scale(
            contender, databases, sleepers=sleepers, waiting=waiting, due=due, driven=driven, slots=slots, idle=idle
        )
        none, before = levels[0], None
        for one in levels:
            runs = one.sleepers - none.sleepers
            last = before or none
            more = one.sleepers - last.sleepers
            scale.add(
                contender.database,
                str(one.sleepers),
                str(one.waiting),
                f"{one.start_seconds:.2f} s",
                f"{one.start_cpu:.2f} s",
                f"{one.resident / MEGA:.1f}",
                f"{(one.resident - none.resident) / runs:.0f}" if runs else "",
                f"{one.disk / MEGA:.1f}",
                f"{(one.disk - last.disk) / more:.0f}" if more else "",
                f"{one.idle_cpu:.2f}",
                f"{one.ticks.statements} statements, {one.ticks.milliseconds:.2f} ms",
            )
            before = one
        late.add(contender.database, *lateness(fired))
        raw["scale"][contender.key] = {"levels": [asdict(one) for one in levels], "timers": asdict(fired)}
        print(f"  {contender.key}: {levels[-1]}")
    side = Table(
        f"{beside} sleepers of one recorded step each",
        [
            "contender",
            "asleep/s",
            "RAM MB of the worker without",
            "with",
            "B/sleeper",
            "of a worker started anew",
            "B/sleeper",
            "start to first step without",
            "with",
            "server MB",
            "disk B/sleeper",
        ],
    )
    for contender in contenders if beside else ():
        cells, kept = beside_others(contender, databases, beside, slots)
        side.add(contender.key, *cells)
        raw["beside"][contender.key] = kept
        print(f"  {contender.key}: {kept}")
    return [table for table in (scale, late, side) if table.rows], raw


def lateness(fired: Timers) -> list[str]:
    cells = []
    for found in (fired.leased, fired.stepped):
        at = [found[len(found) // 2], found[len(found) * 99 // 100], found[-1]] if found else []
        cells += [f"{seconds:.2f} s" for seconds in at] or ["", "", ""]
    return [*cells, str(sum(at < 0 for at in fired.stepped)), str(fired.lapses), f"{fired.lease_left:.1f} s"]


def beside_others(
    contender: Contender, databases: Databases, count: int, slots: int
) -> tuple[list[str], dict[str, Any]]:
    beds = Beds(contender, databases, slots)
    with beds.put("sleep", 1) as pid:  # makes the tables
        awake = resident(pid)
    without = beds.fresh(0.1)
    disk = beds.disk()
    server = resident(databases.temporal.process.pid) if databases.temporal and contender.database == "temporal" else 0
    began = time.monotonic()
    with beds.put("sleep", count) as pid:
        took = time.monotonic() - began - SETTLE
        asleep = resident(pid)
    beside = beds.fresh(0.1)
    grown = resident(databases.temporal.process.pid) if databases.temporal and contender.database == "temporal" else 0
    each = (beds.disk() - disk) / count
    told = {
        "asleep_per_second": count / took,
        "worker_without": awake,
        "worker_with": asleep,
        "fresh_without": without.resident,
        "fresh_with": beside.resident,
        "start_without": without.start_seconds,
        "start_with": beside.start_seconds,
        "server_without": server,
        "server_with": grown,
        "disk_each": each,
    }
    cells = [
        f"{count / took:.0f}",
        f"{awake / MEGA:.0f}",
        f"{asleep / MEGA:.0f}",
        f"{(asleep - awake) / count:.0f}",
        f"{beside.resident / MEGA:.0f}",
        f"{(beside.resident - without.resident) / count:.0f}",
        f"{without.start_seconds:.2f} s",
        f"{beside.start_seconds:.2f} s",
        f"{server / MEGA:.0f}, then {grown / MEGA:.0f}" if grown else "",
        f"{each:.0f}",
    ]
    return cells, told
