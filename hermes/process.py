"""A process of an installation: the loops of its roles, started together and drained together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from enum import StrEnum
from types import TracebackType

import structlog

from hermes.app import App
from hermes.claim import Desk
from hermes.claim.loop import DeskLoop
from hermes.durable.worker import Worker
from hermes.retention import Nightly
from hermes.schedule.loop import Scheduler
from hermes.schedule.ticker import Ticker

log = structlog.get_logger("hermes.process")


class Role(StrEnum):
    scheduler = "scheduler"
    """Decides when, asks boards, claims cards, shows endings, reloads the configuration."""
    worker = "worker"
    """Drives runs."""
    board = "board"
    """Serves the local board and its page."""
    web = "web"
    """Serves the API, where hermes.yaml has a section `api:`."""


ALL_ROLES = frozenset(Role)


class Process:
    """Any number of these may share one database and one board. `stop` drains: what runs is finished or handed back,
    what has ended is shown, and no card is left InProgress for nobody to work on."""

    def __init__(
        self, app: App, roles: frozenset[Role] = ALL_ROLES, *, desk_threads: int = 2, ticks: bool = True
    ) -> None:
        """Without `ticks` no poll starts by itself and no file is read again: hermes/once.py says what runs."""
        self.app = app
        self.roles = roles
        self.ticker = Ticker(app.metrics)
        self.desk: Desk | None = None
        self.scheduler: Scheduler | None = None
        self.worker: Worker | None = None
        self._desk_loop: DeskLoop | None = None
        self._nightly: Nightly | None = None
        self._desk_threads = desk_threads
        self._ticks = ticks
        self._executor: ThreadPoolExecutor | None = None
        self._closing: list[Callable[[], None]] = []
        self._stopped = threading.Event()

    def start(self) -> None:
        """Returns when every loop runs. The database must be up to date."""
        app = self.app
        if Role.board in self.roles:
            self._closing.append(app.serve_local_boards())
        tick = app.configuration.workers.tick
        if Role.scheduler in self.roles:
            app.set_places()
            self._executor = ThreadPoolExecutor(4, thread_name_prefix="hermes-poll")
            self.desk = app.desk()
            self.scheduler = app.scheduler(self.desk, self._executor)
            self.scheduler.apply(app.configuration.polls.values())
            app.reach_missing()
            self._desk_loop = DeskLoop(
                self.desk, app.store.subscribe_cards, threads=self._desk_threads, tick_seconds=tick.total_seconds()
            )
        if self.scheduler is not None and self._ticks:
            self.ticker.add("scheduler", tick, self.scheduler.tick)
            self.ticker.add("reload", timedelta(seconds=2), self._reload)
            self.ticker.add("reach", timedelta(seconds=30), app.reach_missing)
            self._watcher = app.watcher()
            self._nightly = app.nightly()
            if self._nightly is not None:
                self.ticker.add("retention", timedelta(minutes=1), self._nightly.tick)
        if Role.worker in self.roles:
            self.worker = app.worker()
            self.worker.start()
        if self._desk_loop is not None:
            self._desk_loop.start()
        if Role.web in self.roles and app.configuration.api is not None:
            from hermes.api.server import serve  # half a second of imports that a process without it is spared

            self._closing.append(serve(app, app.configuration.api))
        self.ticker.start()
        log.info("started", roles=sorted(self.roles), installation=app.identity.installation, boot=app.identity.boot_id)

    def _reload(self) -> None:
        change = self._watcher.tick()
        if change is None:
            return
        for problem in change.problems:
            log.error("the edit is broken; the last good version stays in use", problem=str(problem))
        if change.restart_needed:
            log.warning("hermes.yaml changed: restart to use it")
        self.app.use(change.configuration)
        self.app.set_places()
        if self.scheduler is not None:
            self.scheduler.apply(change.configuration.polls.values())
        log.info("configuration reloaded", change=str(change))

    def stop(self) -> None:
        """Drain. A second call does nothing."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        log.info("draining")
        if self._nightly is not None:
            self._nightly.stop()
        self.ticker.stop()
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler.wait_idle(30.0)
        if self.worker is not None:
            self.worker.stop()
        if self._desk_loop is not None and self.desk is not None:
            self._desk_loop.stop()
            self.desk.close()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        for close in self._closing:
            close()
        log.info("stopped")

    def __enter__(self) -> Process:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
