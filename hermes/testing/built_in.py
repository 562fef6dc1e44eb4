"""Hermes' own engine, as `hermes.testing.engine_contract` wants to handle it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal

from hermes.crash_points import CrashPoint
from hermes.durable.events import Event
from hermes.model.event import NewEvent
from hermes.model.json import JSON
from hermes.ports.runs import Decision
from hermes.testing.engine import EngineHarness
from hermes.testing.engine_contract import Moment, Seen

_POINTS = {
    Moment.before_effect: CrashPoint.after_intent,
    Moment.after_effect: CrashPoint.effect_sent,
    Moment.after_result: CrashPoint.result_recorded,
    Moment.asleep: CrashPoint.delay_armed,
}


class BuiltIn:
    def __init__(self, harness: EngineHarness) -> None:
        self.outside = harness.outside
        self._harness = harness

    def start(self, function: Any, key: str, /, *, deliveries: int = 16, **args: JSON) -> str:
        return self._harness.enqueue(function, new={"key": key, "max_deliveries": deliveries}, **args)

    def work(self) -> None:
        self._harness.worker.run_due()

    def advance(self, by: timedelta) -> None:
        self._harness.clock.advance(by)

    def finish(self, run: str) -> Seen:
        self._harness.finish(run)
        return self.look(run)

    def look(self, run: str) -> Seen:
        found = self._harness.get(run)
        error = f"{found.error.short_kind}: {found.error.message}" if found.error else None
        return Seen(found.state.value, found.result, error, found.reason or "", found.deliveries)

    def fire(self, event: Event[Any], instance_id: str, payload: Any = None, *, event_id: str | None = None) -> bool:
        text = None if event.type is None else event.codec.dump(payload, self._harness.settings.max_bytes)
        new = NewEvent(event.name, instance_id, text, event_id, ttl=event.ttl)
        fired = self._harness.fire(new)
        return fired.run_id is not None and not fired.duplicate

    @contextmanager
    def dying(self, moment: Moment) -> Iterator[None]:
        with self._harness.dying_at(_POINTS[moment]):
            yield

    def replace_worker(self) -> None:
        self._harness.take_over()
        self._harness.worker = self._harness.new_worker()

    def cancel(self, run: str, reason: str) -> None:
        with self._harness.database.write() as unit:
            unit.runs.cancel(run, reason)

    def resume(self, run: str, decision: Literal["done", "again"] | None = None, result: JSON = None) -> None:
        self._harness.resume(run, Decision(decision) if decision else None, result)
