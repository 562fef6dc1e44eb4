"""Calls the background loops of a process. APScheduler keeps the time; what is due stands in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from hermes.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)


class Ticker:
    """Several named ticks, each never twice at once. A tick that raises is logged, counted, and called again."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._ticks: dict[str, tuple[Callable[[], object], timedelta]] = {}
        self._scheduler: Any = None
        self._failures: dict[str, int] = {}
        self._mutex = threading.Lock()

    def add(self, name: str, every: timedelta, tick: Callable[[], object]) -> None:
        """Before `start`."""
        if name in self._ticks:
            raise ValueError(f"there is a tick named {name} already")
        self._ticks[name] = (tick, every)

    def start(self) -> None:
        pool = ThreadPoolExecutor(max(1, len(self._ticks)), pool_kwargs={"thread_name_prefix": "tick"})
        self._scheduler = BackgroundScheduler(
            executors={"default": pool},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )
        for name, (_, every) in self._ticks.items():
            self._scheduler.add_job(self.call, "interval", args=(name,), seconds=every.total_seconds(), id=name)
        self._scheduler.start()
        for name in self._ticks:
            self.wake(name)

    def call(self, name: str) -> None:
        """One tick, as the background thread makes it."""
        try:
            self._ticks[name][0]()
        except Exception as exc:  # noqa: BLE001  (top of a background loop)
            with self._mutex:
                self._failures[name] = count = self._failures.get(name, 0) + 1
            self._metrics.add("tick_failures")
            # A loop that fails every second must not fill the disk: the first, then ever more rarely.
            if count & (count - 1) == 0:
                _log.error("background loop failed", loop=name, failures_in_a_row=count, exc_info=exc)
        else:
            with self._mutex:
                failed = self._failures.pop(name, 0)
            if failed:
                _log.info("background loop works again", loop=name, failures=failed)

    def wake(self, name: str) -> None:
        """Call it now instead of at its next time."""
        from datetime import UTC, datetime

        job = self._scheduler.get_job(name) if self._scheduler else None
        if job is not None:
            job.modify(next_run_time=datetime.now(UTC))

    def failing(self) -> dict[str, int]:
        """Loops that failed at their last tick, and how often in a row."""
        with self._mutex:
            return dict(self._failures)

    def stop(self) -> None:
        """Returns when no tick is running."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.shutdown(wait=True)
