"""Writes results that waited for company and found none: a result is recorded together with what its run writes next,
and when nothing comes, here."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from hermes.durable.recorder import Recorder, Unwritten

log = structlog.get_logger("hermes.worker")

PATIENCE_SECONDS = 0.02
"""A function comes to its next await in microseconds; one that computes for longer is not waited for."""


class LateWriter:
    def __init__(self) -> None:
        self._waiting: deque[tuple[Recorder, Unwritten]] = deque()
        self._some = threading.Event()
        self._stopped = threading.Event()

    def watch(self, recorder: Recorder, unwritten: Unwritten) -> None:
        self._waiting.append((recorder, unwritten))
        if not self._some.is_set():
            self._some.set()

    def tick(self) -> None:
        """Write what is still unwritten of all that waited when this was called."""
        for _ in range(len(self._waiting)):
            recorder, unwritten = self._waiting.popleft()
            try:
                written = recorder.write_late(unwritten)
            except Exception:
                log.exception("a result is not recorded yet", run_id=recorder.lease.run_id)
                continue  # its driver meets the same at its next write, and can say what it means
            if not written:
                self.watch(recorder, unwritten)

    def serve(self) -> None:
        while not self._stopped.is_set():
            self._some.wait()
            self._some.clear()
            self._stopped.wait(PATIENCE_SECONDS)
            self.tick()

    def stop(self) -> None:
        self._stopped.set()
        self._some.set()
