"""A worker process for test_processes.py: `python process_worker.py DATABASE EFFECTS`. Leases of 2 s."""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta

import store.tables  # noqa: F401 - registers them
from hermes.clock import SystemClock
from hermes.durable import command, current_step, delay, function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from store.database import Database

SETTINGS = EngineSettings(
    slots=4,
    lease=timedelta(seconds=float(os.environ.get("LEASE", "2"))),
    tick=timedelta(seconds=0.25),
    drain=timedelta(seconds=10),
)
EFFECTS = sys.argv[2] if len(sys.argv) > 2 else os.devnull


@command(name="process.act")
def act(place: int) -> int:
    """One line a call: what the outside saw. A service that dedupes would count each key once."""
    step = current_step()
    with open(EFFECTS, "a", encoding="ascii") as effects:
        effects.write(f"{step.run_key} {place} {step.idempotency_key} {os.getpid()}\n")
    return place


@function(name="process.job")
async def job(steps: int, pause: float) -> int:
    total = 0
    for place in range(steps):
        total += await act(place)
        if pause and place == 0:
            await delay(timedelta(seconds=pause))
    return total


def main() -> None:
    database = Database(f"sqlite:///{sys.argv[1]}", SystemClock())
    worker = Worker(database, SystemClock(), SETTINGS)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    worker.start()
    print("started", flush=True)
    stopped.wait()
    worker.stop()


if __name__ == "__main__":
    main()
