"""One delivery of a run: drives the coroutine, answers each await from the record or by doing it, and ends.

The coroutine is driven here and nowhere else: what it awaits yields a handle, the handle's step is looked up by the
number it got when it was called. When the run must wait, the transaction that says so is made first and the coroutine
is then dropped; it never sees an exception for that.
"""

from __future__ import annotations

import contextvars
import ctypes
import json
import logging
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import structlog

from hermes.clock import Clock
from hermes.crash_points import CrashPoint, reach
from hermes.durable import backoff
from hermes.durable.attempts import Attempts
from hermes.durable.codec import Codec
from hermes.durable.command_step import CommandStep
from hermes.durable.context import driving
from hermes.durable.endings import ContinueAsNew, Refused, Snooze
from hermes.durable.failure import ForeignAwait, NeverAwaited, NotStorable, clean, describe, rebuild
from hermes.durable.handles import (
    AllHandle,
    ChildHandle,
    CommandHandle,
    DelayHandle,
    EventHandle,
    FireHandle,
    Handle,
    PersonHandle,
    RaceHandle,
)
from hermes.durable.outcome import Error, Left, Outcome, Value
from hermes.durable.recorder import Recorder
from hermes.durable.registry import Runnable
from hermes.durable.replay import Replay, named
from hermes.durable.settings import EngineSettings
from hermes.durable.waiting import Waiting
from hermes.errors import LeaseLost, TooManyKept
from hermes.model.run import RunError, RunState
from hermes.model.step import LeasedRun, Step, StepKind, StepState
from hermes.ports.pending import NewStep
from hermes.ports.runs import CancelAsked


class Delivery(Replay):
    def __init__(
        self,
        leased: LeasedRun,
        runnable: Runnable,
        recorder: Recorder,
        attempts: Attempts,
        clock: Clock,
        settings: EngineSettings,
    ) -> None:
        super().__init__(leased, clock, settings)
        self.runnable = runnable
        self.recorder = recorder
        self.attempts = attempts
        self._log = structlog.get_logger("hermes.run").bind(
            run_id=self.run.id,
            claim_id=f"{self.run.id}/{leased.lease.fence}",
            function=self.run.function,
            poll_id=self.run.poll_id,
            source_object_id=self.run.object_id,
        )
        self._failed: list[int] = []
        """What the last await came to, if it failed."""
        self._failed_at = 0
        self._context = contextvars.copy_context()
        self._context.run(driving.set, self)

    # -- the delivery as a whole

    def drive(self) -> None:
        """Until the run ends or leaves. Raises LeaseLost when it is somebody else's."""
        if self.run.cancel_reason is not None:
            self._end(RunState.cancelled, reason=self.run.cancel_reason)
            return
        try:
            coroutine = cast(Coroutine[Any, Any, Any], self.runnable.coroutine(self.run.args))
        except NotStorable as exc:
            self._end(RunState.parked, reason=f"the code changed: {exc}")
            return
        try:
            self._drive(coroutine)
        except CancelAsked as asked:
            self._end(RunState.cancelled, reason=asked.reason)
        except Left:
            pass
        finally:
            self._unwind(coroutine)

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        outcome: Outcome = Value(None)
        while True:
            try:
                if isinstance(outcome, Value):
                    awaited = self._context.run(coroutine.send, outcome.value)
                else:
                    awaited = self._context.run(coroutine.throw, outcome.error)
            except StopIteration as stop:
                self._leave_if_refusing()
                return self._returned(stop.value)
            except LeaseLost:
                raise
            except BaseException as exc:  # noqa: BLE001 - a user's function may raise anything, SystemExit too
                self._leave_if_refusing()
                return self._raised(exc)
            self._leave_if_refusing()
            outcome = self._answer(awaited)

    def _answer(self, awaited: object) -> Outcome:
        if not isinstance(awaited, Handle) or awaited.delivery is not self:
            return Error(
                ForeignAwait(
                    f"a durable function awaited {awaited!r}: it may await only commands, delays and other handles of "
                    "its own run. Put everything else (asyncio, sockets, files) into a command"
                )
            )
        self._unawaited.pop(awaited, None)
        outcome = self._outcome(awaited)
        self._failed = self._failures(awaited) if isinstance(outcome, Error) else []
        self._failed_at = self._seq
        return outcome

    def _failures(self, awaited: Handle[Any]) -> list[int]:
        members = awaited.members if isinstance(awaited, AllHandle) else (awaited,)
        return [handle.seq for handle in members if isinstance(handle.outcome, Error)]

    @property
    def _failed_step(self) -> int | None:
        """The lowest that failed, if the function has asked for nothing since: then a redelivery does it afresh."""
        return min(self._failed, default=None) if self._failed_at == self._seq else None

    def _outcome(self, handle: Handle[Any]) -> Outcome:
        if handle.outcome is None:
            handle.outcome = self._settle(handle)
        return handle.outcome

    def _settle(self, handle: Handle[Any]) -> Outcome:
        match handle:
            case CommandHandle():
                return CommandStep(self, handle).settle()
            case DelayHandle():
                return self._settle_delay(handle)
            case FireHandle():
                return self._settle_fire(handle)
            case PersonHandle():
                return self._settle_person(handle)
            case RaceHandle():
                return Value(Waiting(self, handle.members, handle).settle())
            case AllHandle():
                return self._settle_all(handle)
        Waiting(self, [handle]).settle()
        return self._ended(handle)

    def _leave_if_refusing(self) -> None:
        if self._refusing is not None:
            self._end(RunState.parked, reason=self._refusing)
            raise Left

    def _unwind(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Drop a suspended coroutine. Python runs its `finally` blocks; whatever they ask for is refused."""
        self._refusing = self._refusing or "the run is suspended: no step may be asked for while it unwinds"
        for _ in range(3):
            try:
                self._context.run(coroutine.close)
                return
            except BaseException:  # noqa: BLE001, S112 - of code that is not going on: awaits again, or raises
                continue
        # It catches everything and awaits again. Collecting it would only start that over, and for ever when the
        # interpreter ends: it is never collected.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))

    # -- delays and children

    def _settle_delay(self, handle: DelayHandle) -> Outcome:
        step = self.steps.get(handle.seq)
        due = handle.wait <= timedelta(0) if step is None else _is_over(step, self.now())
        if not due:
            pending = self.take_pending()
            self.recorder.write(
                lambda unit: unit.endings.hibernate(
                    self.recorder.lease, None, f"step {handle.seq}: delay", awaits=[handle.seq], pending=pending
                )
            )
            reach(CrashPoint.delay_armed)
            raise Left
        if step is None or step.state is not StepState.done:
            self._passed.append(handle.seq)
        return Value(None)

    def _settle_all(self, handle: AllHandle) -> Outcome:
        Waiting(self, handle.members).settle()
        outcomes = [self._outcome(member) for member in handle.members]
        failed = next((outcome for outcome in outcomes if isinstance(outcome, Error)), None)
        return failed or Value(tuple(outcome.value for outcome in outcomes if isinstance(outcome, Value)))

    def _ended(self, handle: Handle[Any]) -> Outcome:
        """Of a child or a wait that is over."""
        step = self.steps[handle.seq]
        if step.state is StepState.failed and step.error is not None:
            return Error(rebuild(step.error))
        if isinstance(handle, EventHandle):
            try:
                return Value(handle.payload.load(step.result_json or "null"))
            except NotStorable as exc:
                return Error(exc)  # whoever fired it is to blame
        assert isinstance(handle, ChildHandle)  # noqa: S101 - nothing else ends by another hand
        return self.decoded(handle.seq, handle.result, step.result_json or "null")

    def _settle_person(self, handle: PersonHandle) -> Outcome:
        if handle.seq not in self.steps:  # recorded as it parks: whoever is here again was resumed
            self._new.append(NewStep(handle.seq, StepKind.person, handle.name, result_json="null"))
            self.park(handle.reason)
        return Value(None)

    def _settle_fire(self, handle: FireHandle) -> Outcome:
        step = self.steps.get(handle.seq)
        if step is not None and step.state is StepState.failed and step.error is not None:
            return Error(rebuild(step.error))
        if step is not None and step.state is not StepState.retry:
            return Value(None)
        lease, pending = self.recorder.lease, self.take_pending()
        event = replace(handle.event, event_id=f"{self.run.id}:{handle.seq}")
        error = None
        try:
            recorded = self.recorder.write(
                lambda unit: unit.waits.fire(lease, handle.seq, event, max_kept=self.settings.max_kept, pending=pending)
            )
        except TooManyKept as exc:
            error = refused = describe(exc)
            recorded = self.recorder.write(
                lambda unit: unit.waits.fire_failed(lease, handle.seq, event, refused, pending=pending)
            )
        self.recorded(recorded, pending)
        return Value(None) if error is None else Error(rebuild(error))

    # -- for the steps

    def look_again(self) -> None:
        """At what is recorded: others have a hand in it."""
        self.steps = {step.seq: step for step in self.recorder.read(lambda unit: unit.runs.steps(self.run.id))}

    def decoded(self, seq: int, codec: Codec, text: str) -> Value:
        try:
            return Value(codec.load(text))
        except NotStorable as exc:
            self._refusing = f"the code changed under this run: step {seq}: {exc}"
            self._leave_if_refusing()
            raise

    def leave_if_differs(self, seq: int, recorded_json: str | None, now_json: str) -> None:
        """The same key must never carry other arguments."""
        if recorded_json is not None and json.loads(recorded_json) != json.loads(now_json):
            self.differs(seq, f"arguments {_shortened(recorded_json)}", _shortened(now_json))
            self._leave_if_refusing()

    def park(self, reason: str, *, unknown_step: int | None = None) -> None:
        self._end(RunState.parked, reason=reason, unknown_step=unknown_step)
        raise Left

    # -- endings

    def _returned(self, value: object) -> None:
        left = [step for seq, step in sorted(self.steps.items()) if seq > self._seq]
        lost = next((step for step in left if step.kind is not StepKind.patch), None)
        if lost is not None:
            self.differs(lost.seq, named(lost.kind, lost.name), "the function is over before it")
            self._leave_if_refusing()
        if self._unawaited:
            return self._raised(NeverAwaited(", ".join(map(repr, self._unawaited)) + " was called but never awaited"))
        if isinstance(value, ContinueAsNew):
            return self._continue_as_new(value)
        if isinstance(value, Refused):
            return self._end(RunState.refused, reason=value.reason)
        if isinstance(value, Snooze):
            pending = self.take_pending()
            # A snooze into the past would turn in circles.
            until = max(value.until, self.now() + self.settings.tick)
            return self.recorder.write(
                lambda unit: unit.endings.hibernate(
                    self.recorder.lease, until, clean(value.reason), pending=pending, what="snooze"
                )
            )
        try:
            text = self.runnable.ending.dump(value, self.settings.max_bytes)
        except NotStorable as exc:
            return self._raised(exc)
        return self._end(RunState.succeeded, result_json=text)

    def _continue_as_new(self, anew: ContinueAsNew) -> None:
        function, lease = anew.function, self.recorder.lease
        try:
            args_json = function.arguments.dump(anew.args, anew.kwargs, self.settings.max_bytes)
        except (NotStorable, TypeError) as exc:
            return self._raised(exc)
        pending = self.take_pending()
        self.recorder.write(
            lambda unit: unit.endings.continue_as_new(
                lease, function.name, args_json, self._seq, waited=self.waited, pending=pending
            )
        )
        self._log.info("run continues as new", function=function.name, steps=self._seq - self.run.base_seq)
        return None

    def _raised(self, exc: BaseException) -> None:
        if isinstance(exc, RuntimeError) and "no running event loop" in str(exc):
            foreign = ForeignAwait("a durable function used asyncio: put what awaits anything else into a command")
            foreign.__cause__ = exc
            exc = foreign
        error = describe(exc)
        delivery = self.run.deliveries + 1
        pending = self.take_pending()
        if delivery >= self.run.max_deliveries:
            return self._end(
                RunState.failed, error=error, spends_delivery=True, failed_step=self._failed_step, pending=pending
            )
        due_at = self.now() + backoff.DELIVERY.wait(delivery, self.run.id)
        self._log.warning(
            "delivery failed",
            delivery=delivery,
            error=f"{error.short_kind}: {error.message}",
            due_at=due_at.isoformat(),
        )
        return self.recorder.write(
            lambda unit: unit.endings.redeliver(
                self.recorder.lease,
                error,
                due_at,
                waited=self.waited,
                failed_step=self._failed_step,
                pending=pending,
            )
        )

    def _end(self, state: RunState, **how: Any) -> None:
        how.setdefault("pending", self.take_pending())
        how["waited"] = self.waited
        if how.get("reason") is not None:
            how["reason"] = clean(how["reason"])
        self.recorder.write(lambda unit: unit.endings.end(self.recorder.lease, state, **how))
        reach(CrashPoint.run_ended)
        error: RunError | None = how.get("error")
        self._log.log(
            logging.WARNING if state in (RunState.failed, RunState.parked) else logging.INFO,
            "run ended",
            state=state.value,
            reason=how.get("reason"),
            error=f"{error.short_kind}: {error.message}" if error else None,
        )


def _is_over(step: Step, now: datetime) -> bool:
    return step.state is StepState.done or (step.due_at is not None and step.due_at <= now)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
