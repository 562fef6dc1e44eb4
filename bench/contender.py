"""Who competes, and one trial of one of them: a fresh database, jobs, a worker process, and what the outside saw."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = 3


@dataclass(frozen=True)
class Contender:
    name: str
    script: str
    database: str
    """`sqlite`, `postgresql`, or `temporal`: its dev server on a SQLite file of its own."""
    variant: str = ""
    about: str = ""
    durable: bool = True
    """Three steps, each recorded. False: a job of one task, nothing recorded in between."""
    sleeps: bool = False
    """Competes for the cheapest sleep: one of each engine and database."""

    @property
    def key(self) -> str:
        return f"{self.name}, {self.database}"


CONTENDERS = [
    Contender("Hermes", "hermes_runs", "sqlite", about="three commands; WAL, synchronous=FULL", sleeps=True),
    Contender("DBOS queue", "dbos_workflows", "sqlite", "queue", "three steps; default journal"),
    Contender(
        "DBOS queue, WAL", "dbos_workflows", "sqlite", "queue-wal", "three steps; file put into WAL before", sleeps=True
    ),
    Contender("DBOS threads, WAL", "dbos_workflows", "sqlite", "threads-wal", "three steps; called directly, no queue"),
    Contender("huey chained", "huey_tasks", "sqlite", "chained", "pipeline of three tasks; WAL, fsync=True"),
    Contender("huey whole", "huey_tasks", "sqlite", "whole", "one task of three calls", durable=False),
    Contender("Hermes", "hermes_runs", "postgresql", about="three commands", sleeps=True),
    Contender("DBOS queue", "dbos_workflows", "postgresql", "queue", "three steps", sleeps=True),
    Contender("DBOS threads", "dbos_workflows", "postgresql", "threads", "three steps; called directly, no queue"),
    Contender("procrastinate chained", "procrastinate_tasks", "postgresql", "chained", "each task defers the next"),
    Contender(
        "procrastinate whole", "procrastinate_tasks", "postgresql", "whole", "one task of three calls", durable=False
    ),
    Contender("huey chained", "huey_tasks", "postgresql", "chained", "pipeline of three tasks; its SQL storage"),
    Contender("huey whole", "huey_tasks", "postgresql", "whole", "one task of three calls", durable=False),
    Contender("Temporal", "temporal", "temporal", "remote", "three activities; its dev server, on a file", sleeps=True),
    Contender("Temporal local", "temporal", "temporal", "local", "three local activities"),
]


@dataclass(frozen=True)
class Seen:
    """One line of the record."""

    job: int
    place: int
    at: float


class Trial:
    """Jobs of one kind and the process that works them off. More than one may share a database, one after the other."""

    def __init__(
        self,
        contender: Contender,
        database: str,
        folder: Path,
        *,
        jobs: int,
        slots: int,
        pause: float = 0.0,
        kind: str = "steps",
        first: int = 0,
        timeout: float = 0.0,
        until: float = 0.0,
    ) -> None:
        """The last four as in bench/contenders/asked.py."""
        self.contender = contender
        self.database = database
        self.jobs = jobs
        self.first = first
        self._asked = {"kind": kind, "first": first, "slots": slots, "pause": pause, "timeout": timeout, "until": until}
        self.record = folder / f"record-{time.monotonic_ns()}"
        self.record.touch()
        self.output = self.record.with_suffix(".log")

    def enqueue(self) -> float:
        """Seconds, as the contender timed itself."""
        told = subprocess.run(self._command("enqueue"), cwd=ROOT, capture_output=True, timeout=600)
        if told.returncode != 0:
            raise RuntimeError(f"{self.contender.key} cannot enqueue:\n{told.stderr.decode()[-3000:]}")
        return float(json.loads(told.stdout.decode().splitlines()[-1])["seconds"])

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as output:
            return subprocess.Popen(self._command("work"), cwd=ROOT, stdout=output, stderr=output)

    @contextmanager
    def working(self) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start()
        try:
            yield process
        finally:
            end(process)

    def wait_for(self, lines: int, stall: float) -> bool:
        """Until the record has so many lines; False when nothing came for `stall` seconds."""
        known, since = -1, time.monotonic()
        while (now := self.record.read_bytes().count(b"\n")) < lines:
            if now != known:
                known, since = now, time.monotonic()
            elif time.monotonic() - since > stall:
                return False
            time.sleep(0.02)
        return True

    def seen(self) -> list[Seen]:
        found = []
        for line in self.record.read_text(encoding="ascii").splitlines():
            job, place, at = line.split()
            found.append(Seen(int(job), int(place), int(at) / 1e9))
        return found

    def once_each(self) -> bool:
        counted = Counter((line.job, line.place) for line in self.seen())
        return len(counted) == self.jobs * STEPS and set(counted.values()) == {1}

    def _command(self, verb: str) -> list[str]:
        return [
            sys.executable,
            *("-m", f"bench.contenders.{self.contender.script}"),
            verb,
            *("--database", self.database, "--variant", self.contender.variant, "--record", str(self.record)),
            *("--jobs", str(self.jobs)),
            *(part for name, value in self._asked.items() for part in (f"--{name}", str(value))),
        ]


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
