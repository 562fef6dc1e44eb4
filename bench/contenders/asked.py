"""What the driver asks of a contender, and the outside's record of what its steps did: a line a step, appended."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

ASLEEP = timedelta(days=30)
"""How long a job of kind `sleep` lies."""


@dataclass(frozen=True)
class Asked:
    verb: str
    """`enqueue` jobs and leave, or `work` until a SIGTERM."""
    database: str
    """A SQLite file, the URL of a PostgreSQL database, or temporal://HOST:PORT."""
    variant: str
    kind: str
    """`steps`: three of them. `sleep`: a step, 30 days, a step. Hermes knows more, for bench/hibernation.py."""
    first: int
    """Number of the first of the jobs."""
    jobs: int
    slots: int
    timeout: float
    """Seconds after which a worker that says nothing is given up; 0: the contender's own default."""
    until: datetime
    """When jobs of kind `timer` go on; one of kind `long` is at work until a little later."""

    @property
    def postgres(self) -> bool:
        return self.database.startswith("postgresql://")

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.jobs)


def asked() -> Asked:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["enqueue", "work"])
    parser.add_argument("--database", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--record", required=True)
    parser.add_argument("--kind", default="steps")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--timeout", type=float, default=0.0)
    parser.add_argument("--until", type=float, default=0.0)
    options = vars(parser.parse_args())
    global _record, _pause
    _record = os.open(options.pop("record"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _pause = options.pop("pause")
    return Asked(**{**options, "until": datetime.fromtimestamp(options["until"], UTC)})


def step(job: int, place: int) -> int:
    """The whole work of a step: one line that no death takes back, whoever counts them."""
    os.write(_record, f"{job} {place} {time.monotonic_ns()}\n".encode())
    if _pause:
        time.sleep(_pause)
    return place


def timed(work: Callable[[], object]) -> None:
    """Say how long it took, imports and connecting left out."""
    began = time.monotonic()
    work()
    json.dump({"seconds": time.monotonic() - began}, sys.stdout)


def until_told() -> None:
    """Of workers that have threads of their own."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    told.wait()


_record = -1
_pause = 0.0
