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
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import structlog

from hermes.clock import Clock
from hermes.crash_points import CrashPoint, reach
from hermes.durable import backoff
from hermes.durable.attempts import Attempts
from hermes.durable.codec import Codec
from hermes.durable.command import Command
from hermes.durable.command_step import CommandStep
from hermes.durable.context import driving
from hermes.durable.endings import Refused, Snooze
from hermes.durable.failure import ForeignAwait, NeverAwaited, NotStorable, StepRefused, clean, describe, rebuild
from hermes.durable.handles import ChildHandle, CommandHandle, DelayHandle, Handle
from hermes.durable.outcome import Error, Left, Outcome, Value
from hermes.durable.recorder import Recorder
from hermes.durable.registry import Runnable
from hermes.durable.settings import EngineSettings
from hermes.errors import LeaseLost
from hermes.model.run import NewRun, RunError, RunState
from hermes.model.step import LeasedRun, Step, StepKind, StepState
from hermes.ports.runs import CancelAsked, NewStep, Pending

T = TypeVar("T")

NO_STEP = 0
"""Number of a step that will never be made; real ones count from 1."""

LONGEST_DELAY = timedelta(days=36_525)


class Delivery:
    def __init__(
        self,
        leased: LeasedRun,
        runnable: Runnable,
        recorder: Recorder,
        attempts: Attempts,
        clock: Clock,
        settings: EngineSettings,
    ) -> None:
        self.run = leased.run
        self.runnable = runnable
        self.recorder = recorder
        self.attempts = attempts
        self.settings = settings
        self.steps: dict[int, Step] = {step.seq: step for step in leased.steps}
        self._clock = clock
        self._log = structlog.get_logger("hermes.run").bind(
            run_id=self.run.id,
            claim_id=f"{self.run.id}/{leased.lease.fence}",
            function=self.run.function,
            poll_id=self.run.poll_id,
            source_object_id=self.run.object_id,
        )
        # What the database found due is due, even where this machine's clock is behind the one that decided.
        self._leased_at = leased.lease.until - settings.lease
        self._seq = 0
        self._new: list[NewStep] = []
        self._passed: list[int] = []
        self._unawaited: dict[int, CommandHandle[Any]] = {}
        self._refusing: str | None = None
        """Why no further step may be asked for: the run differs from its record, or is being unwound."""
        self._refusals = 0
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
        self._unawaited.pop(awaited.seq, None)
        if awaited.outcome is None:
            awaited.outcome = self._settle(awaited)
        return awaited.outcome

    def _settle(self, handle: Handle[Any]) -> Outcome:
        if isinstance(handle, CommandHandle):
            return CommandStep(self, handle).settle()
        if isinstance(handle, DelayHandle):
            return self._settle_delay(handle)
        assert isinstance(handle, ChildHandle)  # noqa: S101 - there are three kinds of handle
        return self._settle_child(handle)

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

    # -- what the function asks for, in its own thread, between two awaits

    def command(self, command: Command[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CommandHandle[T]:
        args_json = command.arguments.dump(args, kwargs, self.settings.max_bytes)
        handle = CommandHandle(self, self._next(StepKind.command, command.name), command, args_json)
        if handle.seq != NO_STEP:
            self._unawaited[handle.seq] = handle
        return handle

    def delay(self, wait: timedelta) -> DelayHandle:
        if wait > LONGEST_DELAY:
            raise ValueError(f"a delay of {wait.days:,} days: at most {LONGEST_DELAY.days:,}")
        seq = self._next(StepKind.delay, "delay")
        if seq != NO_STEP and seq not in self.steps:
            self._new.append(NewStep(seq, StepKind.delay, "delay", wait=max(wait, timedelta(0))))
        return DelayHandle(self, seq, wait)

    def child(self, child: NewRun, result: Codec) -> ChildHandle[Any]:
        return ChildHandle(self, self._next(StepKind.child, child.function), child, result)

    def value(self, name: str, codec: Codec, make: Callable[[], Any]) -> Any:
        seq = self._next(StepKind.value, name)
        if seq == NO_STEP:
            raise StepRefused(self._refusing)
        recorded = self.steps.get(seq)
        if recorded is not None and recorded.result_json is not None:
            return codec.load(recorded.result_json)
        text = codec.dump(make(), self.settings.max_bytes)
        self._new.append(NewStep(seq, StepKind.value, name, result_json=text))
        return codec.load(text)

    def now(self) -> datetime:
        return max(self._clock.now(), self._leased_at)

    def _next(self, kind: StepKind, name: str) -> int:
        if self._refusing is not None:
            self._refusals += 1
            if self._refusals > 10:
                return NO_STEP  # code that catches this and asks again for ever is left at its next await
            raise StepRefused(self._refusing)
        self._seq += 1
        recorded = self.steps.get(self._seq)
        if recorded is not None and (recorded.kind, recorded.name) != (kind, name):
            self.differs(self._seq, _named(recorded.kind, recorded.name), _named(kind, name))
            raise StepRefused(self._refusing)
        if self._seq > self.settings.max_steps:
            self._refusing = f"its history has more than {self.settings.max_steps:,} steps"
            raise StepRefused(self._refusing)
        return self._seq

    def differs(self, seq: int, recorded: str, now: str) -> None:
        self._refusing = f"the code changed under this run: step {seq}: recorded {recorded}, now {now}"

    # -- delays and children

    def _settle_delay(self, handle: DelayHandle) -> Outcome:
        step = self.steps.get(handle.seq)
        due = handle.wait <= timedelta(0) if step is None else _is_over(step, self.now())
        if not due:
            pending = self.take_pending()
            self.recorder.write(
                lambda unit: unit.endings.hibernate(
                    self.recorder.lease, None, f"step {handle.seq}: delay", awaits=handle.seq, pending=pending
                )
            )
            reach(CrashPoint.delay_armed)
            raise Left
        if step is None or step.state is not StepState.done:
            self._passed.append(handle.seq)
        return Value(None)

    def _settle_child(self, handle: ChildHandle[Any]) -> Outcome:
        step = self.steps.get(handle.seq)
        if step is None:
            pending = self.take_pending()
            child = replace(handle.child, parent_run_id=self.run.id)
            step = self.recorder.write(
                lambda unit: unit.steps.start_child(
                    self.recorder.lease, handle.seq, handle.name, child, pending=pending
                )
            )
            self.steps[handle.seq] = step
            if step.state is StepState.waiting:
                raise Left
        elif step.args_json != handle.child.key:
            self.differs(handle.seq, f"{handle.name} under {step.args_json}", f"under {handle.child.key}")
            self._leave_if_refusing()
        if step.state is StepState.done and step.result_json is not None:
            return self.decoded(handle.seq, handle.result, step.result_json)
        if step.state is StepState.failed and step.error is not None:
            return Error(rebuild(step.error))
        if step.state is StepState.parked:
            why = step.error.message if step.error else "it needs attention"
            self.park(f"step {handle.seq}: {handle.name}, run {step.awaits_run_id}: {why}")
        pending = self.take_pending()
        self.recorder.write(
            lambda unit: unit.endings.hibernate(
                self.recorder.lease,
                None,
                f"step {handle.seq} waits for {handle.name}, run {step.awaits_run_id}",
                awaits=handle.seq,
                pending=pending,
            )
        )
        raise Left

    # -- for the steps

    def take_pending(self) -> Pending:
        pending = Pending(tuple(self._new), tuple(self._passed))
        self._new.clear()
        self._passed.clear()
        return pending

    def recorded(self, pending: Pending, armed: Mapping[int, datetime]) -> None:
        """What was pending is on the disk."""
        for new in pending.new:
            state = StepState.waiting if new.kind is StepKind.delay else StepState.done
            self.steps[new.seq] = Step(
                self.run.id, new.seq, new.kind, new.name, state, result_json=new.result_json, due_at=armed.get(new.seq)
            )
        for seq in pending.passed:
            self.steps[seq] = replace(self.steps[seq], state=StepState.done)

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
        lost = next((step for seq, step in sorted(self.steps.items()) if seq > self._seq), None)
        if lost is not None:
            self.differs(lost.seq, _named(lost.kind, lost.name), "the function is over before it")
            self._leave_if_refusing()
        if self._unawaited:
            return self._raised(
                NeverAwaited(", ".join(map(repr, self._unawaited.values())) + " was called but never awaited")
            )
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

    def _raised(self, exc: BaseException) -> None:
        if isinstance(exc, RuntimeError) and "no running event loop" in str(exc):
            foreign = ForeignAwait("a durable function used asyncio: put what awaits anything else into a command")
            foreign.__cause__ = exc
            exc = foreign
        error = describe(exc)
        delivery = self.run.deliveries + 1
        pending = self.take_pending()
        if delivery >= self.run.max_deliveries:
            return self._end(RunState.failed, error=error, spends_delivery=True, pending=pending)
        due_at = self.now() + backoff.DELIVERY.wait(delivery, self.run.id)
        self._log.warning(
            "delivery failed",
            delivery=delivery,
            error=f"{error.short_kind}: {error.message}",
            due_at=due_at.isoformat(),
        )
        return self.recorder.write(
            lambda unit: unit.endings.redeliver(self.recorder.lease, error, due_at, pending=pending)
        )

    def _end(self, state: RunState, **how: Any) -> None:
        how.setdefault("pending", self.take_pending())
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


def _named(kind: StepKind, name: str) -> str:
    return name if kind in (StepKind.command, StepKind.delay) else f"{kind} {name}"


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
