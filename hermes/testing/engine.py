"""A durable engine whose time and deaths a test decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

from hermes import crash_points
from hermes.crash_points import CrashPoint
from hermes.durable.command import Command
from hermes.durable.function import Function
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.model.event import Fired, NewEvent
from hermes.model.json import JSON
from hermes.model.run import NewRun, Run, RunKind, RunState
from hermes.ports.events import EventsDatabase
from hermes.ports.runs import Decision, Resumed, RunsDatabase
from hermes.testing.clock import FakeClock
from hermes.testing.outside import Outside as Outside


class Died(BaseException):
    """The worker's process is gone, as far as the simulation is concerned."""


class EngineHarness:
    """One database, one fake clock, as many workers as a test wants; each drives in the test's own thread."""

    def __init__(self, database: RunsDatabase, clock: FakeClock, settings: EngineSettings | None = None) -> None:
        self.database = database
        self.clock = clock
        self.settings = settings or EngineSettings()
        self.outside = Outside()
        self._workers: list[Worker] = []
        self.worker = self.new_worker()
        self._keys = 0

    def new_worker(self) -> Worker:
        worker = Worker(self.database, self.clock, self.settings)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def enqueue(
        self, what: Function[Any, Any] | Command[Any, Any], /, *, new: dict[str, Any] | None = None, **args: Any
    ) -> str:
        """`new`: further fields of the NewRun."""
        self._keys += 1
        kind = RunKind.effect if isinstance(what, Command) else RunKind.function
        fields: dict[str, Any] = {"key": f"test-{self._keys}", "kind": kind, **(new or {})}
        run = NewRun(function=what.name, args=args, **fields)
        with self.database.write() as unit:
            return unit.runs.enqueue(run)[0]

    def get(self, run_id: str) -> Run:
        with self.database.read() as unit:
            run = unit.runs.get(run_id)
        assert run is not None, run_id  # noqa: S101
        return run

    def fire(self, event: NewEvent) -> Fired:
        # It is a database of events too; the port of runs does not say so.
        database = cast(EventsDatabase, self.database)
        return database.commit(lambda unit: unit.events.fire(event, max_kept=self.settings.max_kept))

    def resume(self, run_id: str, decision: Decision | None = None, result: JSON = None) -> Resumed:
        result_json = None if result is None else json.dumps(result)
        with self.database.write() as unit:
            return unit.runs.resume(run_id, decision=decision, result_json=result_json)

    def what_happened(self, run_id: str) -> list[str]:
        with self.database.read() as unit:
            return [entry.what for entry in unit.runs.timeline(run_id)]

    def run(self, what: Function[Any, Any], /, **args: Any) -> Run:
        """Enqueue and let time pass until it is over."""
        return self.finish(self.enqueue(what, **args))

    def finish(self, run_id: str, within: timedelta = timedelta(days=30)) -> Run:
        """Work and let time pass until the run is over or nothing will ever happen to it."""
        until = self.clock.now() + within
        while True:
            self.worker.run_due()
            run = self.get(run_id)
            if run.state.final or not self.pass_to_next_due(until):
                return run

    def pass_to_next_due(self, until: Any = None) -> bool:
        """Move time to when the next run is due; False when none ever is, or not before `until`."""
        with self.database.read() as unit:
            open_runs = unit.runs.list(states=[RunState.ready, RunState.waiting], limit=10_000)
            running = unit.runs.list(states=[RunState.running], limit=10_000)
        instants = [run.due_at for run in open_runs if run.due_at is not None and not run.held]
        instants += [run.lease_until + timedelta(milliseconds=1) for run in running if run.lease_until is not None]
        if not instants or (until is not None and min(instants) > until):
            return False
        self.clock.advance(max(min(instants) - self.clock.now(), timedelta(0)))
        return True

    @contextmanager
    def dying_at(self, point: CrashPoint, hit: int = 1) -> Iterator[None]:
        """The worker that reaches `point` for the `hit`-th time in this block dies there: nothing of it goes on, and
        what it holds stays held until the lease is over. The block must end in that death."""
        left = hit

        def die(reached: CrashPoint) -> None:
            nonlocal left
            if reached is point:
                left -= 1
                if left == 0:
                    raise Died(point)

        crash_points.arm(die)
        try:
            yield
        except Died:
            pass
        else:
            raise AssertionError(f"nobody reached {point}")
        finally:
            crash_points.arm(None)

    def take_over(self) -> list[str]:
        """Let the leases of the dead run out and free their runs."""
        self.clock.advance(self.settings.lease + timedelta(seconds=1))
        return self.worker.rescue()
