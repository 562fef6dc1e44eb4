"""Durable functions in tests: the real engine on a SQLite file of its own, and one clock that skips what it may.

    def test_an_order_that_nobody_pays_is_cancelled(durable: Durable) -> None:
        sent = durable.stub(send_mail, returns=None)
        run = durable.start(order, "42")
        assert run.waits[0].name == "PAID"
        durable.skip(timedelta(hours=3))
        assert run.result == "cancelled"
        assert sent.count == 1

The fixture `durable` is there where Hermes is installed. Nothing sleeps and nothing is replaced but the clock and the
bodies of the commands you stub; a function that survives `crash_after` here survives it in production.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

from hermes import crash_points
from hermes.crash_points import CrashPoint
from hermes.durable.command import Command
from hermes.durable.events import DECLARED, Event
from hermes.durable.function import Function
from hermes.durable.settings import EngineSettings
from hermes.model.event import Fired, NewEvent, OpenWait
from hermes.model.json import JSON
from hermes.model.key import user_key
from hermes.model.run import NewRun, Run, RunError, RunKind, RunState, TimelineEntry
from hermes.model.step import Step
from hermes.ports.runs import Decision, Resumed
from hermes.testing.clock import FakeClock
from hermes.testing.databases import sqlite_files
from hermes.testing.engine import Died, EngineHarness
from store.database import Database

P = ParamSpec("P")
R = TypeVar("R")

A_YEAR = timedelta(days=366)


class NeverEnds(AssertionError):
    """Time was skipped, and the run is not over: what it waits for never comes by itself."""


class Stub:
    """In place of a command's body."""

    def __init__(self, do: Callable[[int], Any]) -> None:
        self._do = do
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """Arguments of each attempt."""

    @property
    def count(self) -> int:
        return len(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return self._do(len(self.calls))


class Durable:
    def __init__(self, database: Database, clock: FakeClock, settings: EngineSettings | None = None) -> None:
        self.clock = clock
        self.database = database
        self._engine = EngineHarness(database, clock, settings)
        self._bodies: list[tuple[Command[Any, Any], Any]] = []
        self._dies_after: Command[Any, Any] | None = None
        self._keys = 0

    # -- runs

    def start(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> DurableRun[R]:
        """A run under a key that nobody else has; it goes as far as it comes without waiting."""
        self._keys += 1
        return self.start_under(f"test {self._keys}", function, *args, **kwargs)

    def start_under(self, key: str, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> DurableRun[R]:
        """Under this key, as `hermes.durable.start` and the API do it; a run that has it already is joined."""
        new = NewRun(
            key=user_key("default", key),
            kind=RunKind.function,
            function=function.name,
            args=function.arguments.to_json(args, kwargs, self._engine.settings.max_bytes),
        )
        run_id, _ = self.database.commit(lambda unit: unit.runs.enqueue(new))
        self._work()
        return DurableRun(self, run_id, function)

    def run(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> DurableRun[R]:
        """To its end, skipping the time in which nothing happens. Raises NeverEnds."""
        run = self.start(function, *args, **kwargs)
        return run.finish()

    # -- what happens to them

    @overload
    def fire(self, event: Event[R], instance_id: str, payload: R, /, *, event_id: str | None = None) -> Fired: ...
    @overload
    def fire(self, event: Event[Any] | str, instance_id: str, /, *, event_id: str | None = None) -> Fired: ...
    def fire(
        self, event: Event[Any] | str, instance_id: str, payload: Any = None, /, *, event_id: str | None = None
    ) -> Fired:
        """From outside; what it wakes goes on at once. The answer says who took it, or until when it is kept."""
        known = event if isinstance(event, Event) else DECLARED.get(event) or Event(event)
        text = None if known.type is None else known.codec.dump(payload, self._engine.settings.max_bytes)
        fired = self._engine.fire(
            NewEvent(known.name, instance_id, text, event_id, ttl=known.ttl, fired_by="hermes.testing")
        )
        self._work()
        return fired

    def skip(self, by: timedelta) -> None:
        """Time passes, and everything happens at the moment at which it is due."""
        until = self.clock.now() + by
        self._work()
        while self._engine.pass_to_next_due(until):
            self._work()
        self.clock.advance(max(until - self.clock.now(), timedelta(0)))
        self._work()

    def crash_after(self, command: Command[Any, Any]) -> None:
        """The next time this command has done its work, the process dies before it can say so; once the lease has run
        out another one takes the run over."""

        def notice() -> None:
            if self._dies_after is command:
                crash_points.arm(_die_when_sent)

        self._dies_after = command
        self._replace(command, _noticing(command.call, notice))

    def restart(self) -> None:
        """The process is gone, and another one is here that knows nothing but what is recorded."""
        self._engine.worker.close()
        self._engine.worker = self._engine.new_worker()
        self._work()

    # -- commands

    @overload
    def stub(self, command: Command[Any, R], /, *, returns: R) -> Stub: ...
    @overload
    def stub(self, command: Command[Any, Any], /, *, raises: Exception) -> Stub: ...
    @overload
    def stub(self, command: Command[Any, R], /, *, raises: Exception, times: int, returns: R) -> Stub: ...
    def stub(
        self,
        command: Command[Any, Any],
        /,
        *,
        returns: Any = None,
        raises: Exception | None = None,
        times: int | None = None,
    ) -> Stub:
        """Until the end of the test the command does this instead; `times`: it raises so often, then it returns."""

        def do(count: int) -> Any:
            if raises is not None and (times is None or count <= times):
                raise raises
            return returns

        stub = Stub(do)
        self._replace(command, stub)
        return stub

    # -- inside

    def _replace(self, command: Command[Any, Any], body: Any) -> None:
        command.resolve()  # its annotations are those of its own body
        self._bodies.append((command, command.call))
        command.call = body

    def _work(self) -> None:
        while True:
            try:
                self._engine.worker.run_due()
                return
            except Died:
                crash_points.arm(None)
                self._dies_after = None
                self._engine.take_over()
                self._engine.worker = self._engine.new_worker()

    def _finish(self, run: DurableRun[Any], within: timedelta) -> None:
        until = self.clock.now() + within
        self._work()
        while not run.state.final and self._engine.pass_to_next_due(until):
            self._work()
        if not run.state.final:
            due = run.row.due_at
            never = "nothing will ever wake it" if due is None else f"not over within {within.days:,} days"
            raise NeverEnds(f"{run!r}: {never}")

    def close(self) -> None:
        crash_points.arm(None)
        for command, body in reversed(self._bodies):
            command.call = body
        self._engine.close()


class DurableRun(Generic[R]):
    """One run, as it stands whenever it is asked."""

    def __init__(self, durable: Durable, run_id: str, function: Function[Any, R]) -> None:
        self.id = run_id
        self._durable = durable
        self._function = function

    def __repr__(self) -> str:
        run = self.row
        why = f": {run.reason}" if run.reason else f": {run.error.short_kind}: {run.error.message}" if run.error else ""
        return f"<run of {run.function}, {run.state.value}{why}>"

    @property
    def row(self) -> Run:
        return self._durable._engine.get(self.id)

    @property
    def state(self) -> RunState:
        return self.row.state

    @property
    def result(self) -> R:
        """Of a run that succeeded; of any other an AssertionError that says what became of it."""
        run = self.row
        if run.state is not RunState.succeeded:
            raise AssertionError(f"{self!r} has no result")
        found: R = self._function.ending.load(json.dumps(run.result))
        return found

    @property
    def error(self) -> RunError | None:
        """Of the delivery that failed last."""
        return self.row.error

    @property
    def reason(self) -> str | None:
        """In plain words: what it waits for, why it was refused, parked or cancelled."""
        return self.row.reason

    @property
    def waits(self) -> list[OpenWait]:
        """Events that it awaits now, the earliest first."""
        with self._durable.database.read() as unit:
            return [wait for wait in unit.events.waits(limit=10_000) if wait.run_id == self.id]

    @property
    def steps(self) -> list[Step]:
        with self._durable.database.read() as unit:
            return list(unit.runs.steps(self.id))

    @property
    def timeline(self) -> list[TimelineEntry]:
        with self._durable.database.read() as unit:
            return list(unit.runs.timeline(self.id))

    def happened(self, what: str, **detail: object) -> list[TimelineEntry]:
        """Entries of the timeline that say `what`, with these details: `run.happened("attempt", name=charge)`. A
        command or function stands for its name, and a name without its module for any that ends so."""
        return [
            entry
            for entry in self.timeline
            if entry.what == what and all(_is(entry.detail.get(name), value) for name, value in detail.items())
        ]

    def finish(self, within: timedelta = A_YEAR) -> DurableRun[R]:
        """Skip time until it is over. Raises NeverEnds, naming what it waits for."""
        self._durable._finish(self, within)
        return self

    def cancel(self, reason: str = "cancelled by the test") -> None:
        self._durable.database.commit(lambda unit: unit.runs.cancel(self.id, reason))
        self._durable._work()

    def resume(self, decision: Decision | None = None, result: JSON = None) -> Resumed:
        """As a person would, who may have found out what an attempt of unknown outcome has done."""
        resumed = self._durable._engine.resume(self.id, decision, result)
        self._durable._work()
        return resumed


@contextmanager
def durable_in(folder: Path, settings: EngineSettings | None = None) -> Iterator[Durable]:
    """For those who do not use pytest's fixture."""
    clock = FakeClock()
    with sqlite_files(folder) as databases:
        durable = Durable(databases.open(clock, "durable"), clock, settings)
        try:
            yield durable
        finally:
            durable.close()


def _noticing(body: Callable[..., Any], notice: Callable[[], None]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(body):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await body(*args, **kwargs)
            finally:
                notice()

        return awaited

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        finally:
            notice()

    return called


def _die_when_sent(point: CrashPoint) -> None:
    if point is CrashPoint.effect_sent:
        raise Died(point)


def _is(told: JSON, wanted: object) -> bool:
    if isinstance(wanted, (Command, Function)):
        wanted = wanted.name
    if isinstance(told, str) and isinstance(wanted, str):
        return told == wanted or told.endswith(f".{wanted}")
    return told == wanted
