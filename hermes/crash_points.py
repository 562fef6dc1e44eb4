"""Places where a process may die, named after the rows of the failure catalogue, for tests that kill real processes.

Inactive unless the environment says otherwise:
  HERMES_CRASH_POINTS=A8:3,A10      kill -9 this process at the third hit of A8, or the first of A10
  HERMES_CRASH_POINTS=A8:1:stop     SIGSTOP instead, as a suspended machine would; the test sends SIGCONT
  HERMES_CRASH_LOG=path             append the name of every point that is reached, a line each
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    before_query = "A1"
    after_query = "A2"
    card_leased = "A3"
    claim_sent = "A4"
    claim_acknowledged = "A5"
    claim_read_back = "A6"
    before_intent = "A7"
    after_intent = "A8"
    effect_sent = "A9"
    result_recorded = "A10"
    inside_transaction = "A11"
    delay_armed = "A12"
    event_stored = "A13"
    run_ended = "A14"
    finish_sent = "A15"
    before_release = "A16"


def reach(point: CrashPoint) -> None:
    """Nothing, unless a test has armed `point` in this process."""
    if _hit is not None:
        _hit(point)


def arm(hit: Callable[[CrashPoint], None] | None) -> None:
    """For simulations in one process: call `hit` at every point (it may raise what nobody catches), or disarm."""
    global _hit
    _hit = hit


class _Armed:
    def __init__(self, points: str, log: str | None) -> None:
        self._log = log
        self._mutex = threading.Lock()
        self._left: dict[CrashPoint, int] = {}
        self._signal: dict[CrashPoint, signal.Signals] = {}
        for entry in filter(None, (part.strip() for part in points.split(","))):
            name, _, rest = entry.partition(":")
            count, _, how = rest.partition(":")
            point = CrashPoint(name)
            self._left[point] = int(count or 1)
            self._signal[point] = signal.SIGSTOP if how == "stop" else signal.SIGKILL

    def __call__(self, point: CrashPoint) -> None:
        with self._mutex:
            if self._log:
                with open(self._log, "a", encoding="ascii") as log:
                    log.write(f"{point}\n")
            if point not in self._left:
                return
            self._left[point] -= 1
            fires = self._left[point] == 0
        if fires:
            if self._signal[point] is signal.SIGSTOP:
                # What this thread has just committed has woken others: they are past their transactions by then, and
                # it stands where it stands. Stopped inside one, a process holds up all others, which is A11's subject.
                threading.Event().wait(0.05)
            # To this thread: a SIGSTOP to the process would let it run on until another thread has noticed.
            signal.pthread_kill(threading.get_ident(), self._signal[point])


def from_environment() -> Callable[[CrashPoint], None] | None:
    """What the environment asks for now; a forked process arms it for itself."""
    points, log = os.environ.get("HERMES_CRASH_POINTS", ""), os.environ.get("HERMES_CRASH_LOG")
    return _Armed(points, log) if points or log else None


_hit = from_environment()
