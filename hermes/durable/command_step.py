"""One command of a run: intent, attempt, outcome; and what a later holder does about an attempt of unknown outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.crash_points import CrashPoint, reach
from hermes.durable import backoff
from hermes.durable.attempts import Attempt, AttemptOutcome, Raised, Returned, TimedOut
from hermes.durable.codec import Codec
from hermes.durable.context import StepInfo
from hermes.durable.endings import Found
from hermes.durable.failure import NotStorable, describe, rebuild
from hermes.durable.handles import CommandHandle
from hermes.durable.outcome import Error, Left, Outcome
from hermes.errors import LeaseLost, Retryable, UnknownOutcome
from hermes.model.run import EffectClass, RunError, RunKind
from hermes.model.step import Step, StepState
from hermes.ports.pending import Pending
from hermes.ports.runs import RunsUnit

if TYPE_CHECKING:
    from hermes.durable.delivery import Delivery

LOOK_FOR_A_RECEIPT = timedelta(seconds=5)

MOST_RETRY_AFTER = timedelta(days=30)
"""What the other side may ask for; more is a mistake of its."""


class Postponed(Exception):
    """The step's next attempt is due later, and is recorded so; the run is still here. Never seen by user code."""


class CommandStep:
    def __init__(self, delivery: Delivery, handle: CommandHandle[Any], *, together: bool = False) -> None:
        """`together` with other steps of its run, under way at the same moment: it never sends the run to sleep, but
        raises Postponed."""
        self._delivery = delivery
        self._recorder = delivery.recorder
        self._seq = handle.seq
        self.name = handle.name
        self._command = handle.command
        self._args_json = handle.args_json
        self._together = together
        self._step: Step | None = delivery.steps.get(handle.seq)

    def settle(self) -> Outcome:
        found = self.next()
        return self._attempt(found) if isinstance(found, int) else found

    def next(self) -> Outcome | int:
        """What it has come to, or the number of the attempt that is to be made now."""
        step = self._step
        if step is None:
            return 1
        if step.state is StepState.done:
            return self._delivery.decoded(self._seq, self._command.result, step.result_json or "null")
        if step.state is StepState.failed and step.error is not None:
            return Error(rebuild(step.error))
        if step.state is StepState.lost:
            return self._lost(step)
        if step.due_at is not None and step.due_at > self._delivery.now():
            self._wait_until(step.due_at)
        if step.outcome_unknown:
            return self._resolve(step)
        return step.attempts + 1

    # -- an attempt

    def _attempt(self, attempt: int) -> Outcome:
        delivery = self._delivery
        pending = delivery.take_pending()
        reach(CrashPoint.before_intent)
        recorded = self._recorder.write(lambda unit: self.intend(unit, attempt, pending))
        delivery.recorded(recorded, pending)
        reach(CrashPoint.after_intent)
        self._recorder.make_sure()
        outcome = self._call(self._command.call, self._command.result, attempt)
        reach(CrashPoint.effect_sent)
        return self.finish(outcome, attempt)

    def intend(self, unit: RunsUnit, attempt: int, pending: Pending) -> dict[int, Step]:
        """Returns the steps that were pending."""
        return unit.steps.begin_attempt(
            self._recorder.lease,
            self._seq,
            self._command.name,
            effect=self._command.effect,
            args_json=self._args_json,
            attempt=attempt,
            pending=pending,
        )

    def begin(self, attempt: int, done: Callable[[], None]) -> Attempt:
        """After its intent, beside others."""
        args, kwargs = self._command.arguments.load(self._args_json)
        return self._delivery.attempts.begin(
            self._command.call,
            args,
            kwargs,
            self._info(attempt),
            self._command.timeout,
            self._receiver(self._command.result, attempt),
            done,
        )

    def finish(self, outcome: AttemptOutcome, attempt: int) -> Outcome:
        if isinstance(outcome, Returned):
            return self._returned(outcome.value, attempt)
        return self._went_wrong(outcome, attempt)

    def _call(self, call: Any, result: Codec | None, attempt: int, *first: Any) -> AttemptOutcome:
        args, kwargs = self._command.arguments.load(self._args_json)
        return self._delivery.attempts.run(
            call,
            (*first, *args),
            kwargs,
            self._info(attempt),
            self._command.timeout,
            self._receiver(result, attempt),
        )

    def _info(self, attempt: int) -> StepInfo:
        run = self._delivery.run
        return StepInfo(
            idempotency_key=self._idempotency_key,
            run_id=run.id,
            run_key=run.key,
            seq=self._seq,
            attempt=attempt,
            deadline=self._delivery.now() + self._command.timeout,
        )

    def _receiver(self, result: Codec | None, attempt: int) -> Callable[[Any], None]:
        """Of a result that comes when nobody waits for it any more."""
        run_id, name = self._delivery.run.id, self._command.name

        def late(value: Any) -> None:
            if result is not None:
                with suppress(NotStorable):
                    self._recorder.receive(run_id, self._seq, attempt, name, result.dump(value, self._max_bytes))

        return late

    @property
    def _max_bytes(self) -> int:
        return self._delivery.settings.max_bytes

    @property
    def _idempotency_key(self) -> str:
        run = self._delivery.run
        if run.kind is RunKind.effect:
            # An effect is known by its dedupe key, whatever run carries it: so it outlives a lost database.
            return "hermes-" + hashlib.sha256(run.key.encode()).hexdigest()
        return f"{run.id}:{self._seq}"

    def _returned(self, value: Any, attempt: int, source: str = "attempt") -> Outcome:
        try:
            text = self._command.result.dump(value, self._max_bytes)
        except NotStorable as exc:
            # It has happened: another attempt would make it happen again.
            return self._fail(describe(exc), attempt, afresh=False)
        return self._record(text, attempt, source)

    def _record(self, text: str, attempt: int, source: str) -> Outcome:
        if self._together:
            self._recorder.write_down()  # there is room for one that waits for company
        self._recorder.result(self._seq, attempt, self._command.name, text, source)
        return self._delivery.decoded(self._seq, self._command.result, text)

    def _went_wrong(self, outcome: Raised | TimedOut, attempt: int) -> Outcome:
        if isinstance(outcome, TimedOut):
            exc: BaseException = UnknownOutcome(f"no answer within {_spoken(outcome.after)}")
        else:
            exc = outcome.error
        if isinstance(exc, LeaseLost):
            raise exc
        error, effect = describe(exc), self._command.effect
        if self._command.retries == 0:
            return self._fail(error, attempt, afresh=False)
        unknown = isinstance(exc, UnknownOutcome) or (effect is EffectClass.naive and not isinstance(exc, Retryable))
        if unknown and effect is EffectClass.naive:
            self._park_in_doubt(error)
        known = not unknown or effect is EffectClass.none
        # A checkable command of unknown outcome is asked about at least once more, even after the last attempt.
        if self._left(attempt) > 0 or (unknown and effect is EffectClass.checkable):
            self._retry_later(attempt, error, exc, StepState.retry if known else StepState.unknown)
        return self._fail(error, attempt, afresh=True)

    def _fail(self, error: RunError, attempt: int, *, afresh: bool) -> Outcome:
        self._recorder.write(
            lambda unit: unit.steps.record_failure(self._recorder.lease, self._seq, attempt, error, afresh=afresh)
        )
        return Error(rebuild(error))

    def _retry_later(self, attempt: int, error: RunError, exc: BaseException | None, state: StepState) -> NoReturn:
        tries = attempt - (self._step.attempts_before if self._step else 0)
        wait = backoff.COMMAND.wait(tries, self._delivery.run.id, self._seq, attempt)
        if isinstance(exc, Retryable) and exc.retry_after is not None and exc.retry_after > 0:  # NaN is not
            wait = max(wait, timedelta(seconds=min(exc.retry_after, MOST_RETRY_AFTER.total_seconds())))
        self._sleep(attempt, error, self._delivery.now() + wait, state)

    def _sleep(self, attempt: int, error: RunError, due_at: datetime, state: StepState) -> NoReturn:
        lease, seq = self._recorder.lease, self._seq
        if self._together:
            self._recorder.write(lambda unit: unit.steps.postpone(lease, seq, attempt, error, due_at, state=state))
            raise Postponed
        self._recorder.write(lambda unit: unit.steps.retry_later(lease, seq, attempt, error, due_at, state=state))
        raise Left

    def _left(self, attempt: int) -> int:
        """Attempts that may still be made after this one."""
        before = self._step.attempts_before if self._step else 0
        return self._command.retries + 1 - (attempt - before)

    def _lost(self, step: Step) -> Outcome:
        """Its race was won by another step: it is not tried again, but what its last attempt still brings is its
        result."""
        receipt = self._recorder.read(lambda unit: unit.steps.receipt(step.run_id, step.seq))
        if receipt is not None:
            return self._record(receipt, step.attempts, "receipt")
        now, ends = self._delivery.now(), (step.started_at or self._delivery.now()) + self._command.timeout
        if now < ends:
            self._look_again_at(min(ends, now + LOOK_FOR_A_RECEIPT))
        error = step.error or RunError("hermes.errors:UnknownOutcome", "it lost its race, and no result of it came")
        return self._fail(error, step.attempts, afresh=False)

    def _look_again_at(self, due_at: datetime) -> None:
        if not self._together:
            self._wait_until(due_at)
        lease, pending = self._recorder.lease, self._delivery.take_pending()
        self._recorder.write(lambda unit: unit.steps.look_later(lease, self._seq, due_at, pending=pending))
        raise Postponed

    def _wait_until(self, due_at: datetime) -> None:
        if self._together:
            raise Postponed
        pending = self._delivery.take_pending()
        reason = f"step {self._seq}: next attempt of {self._command.name}"
        self._recorder.write(lambda unit: unit.endings.hibernate(self._recorder.lease, due_at, reason, pending=pending))
        raise Left

    # -- an attempt of unknown outcome, met by whoever holds the run now

    def _resolve(self, step: Step) -> Outcome | int:
        receipt = self._recorder.read(lambda unit: unit.steps.receipt(step.run_id, step.seq))
        if receipt is not None:
            return self._record(receipt, step.attempts, "receipt")
        died = RunError(
            "hermes.errors:UnknownOutcome",
            f"attempt {step.attempts} began and its worker was lost" if step.error is None else step.error.message,
        )
        effect = self._command.effect
        if self._command.retries == 0:
            return self._fail(died, step.attempts, afresh=False)
        if effect is EffectClass.naive:
            self._park_in_doubt(died)
        if effect is EffectClass.none:
            return self._again(step, died)
        self._delivery.leave_if_differs(self._seq, step.args_json, self._args_json)
        if effect is EffectClass.checkable:
            return self._check(step, died)
        if step.first_attempt_at is not None and self._delivery.now() - step.first_attempt_at > self._command.key_ttl:
            self._park_in_doubt(died, f"its key is older than {_spoken(self._command.key_ttl)}")
        return self._again(step, died)

    def _again(self, step: Step, error: RunError) -> Outcome | int:
        if self._left(step.attempts) > 0:
            return step.attempts + 1
        return self._fail(error, step.attempts, afresh=True)

    def _check(self, step: Step, died: RunError) -> Outcome | int:
        self._recorder.make_sure()
        outcome = self._call(self._command.check, None, step.attempts, self._idempotency_key)
        if isinstance(outcome, Returned):
            if isinstance(outcome.value, Found):
                return self._returned(outcome.value.result, step.attempts, source="check")
            return self._again(step, died)
        if isinstance(outcome, Raised) and isinstance(outcome.error, LeaseLost):
            raise outcome.error
        began = step.first_attempt_at or self._delivery.now()
        if self._delivery.now() - began > self._command.key_ttl:
            self._park_in_doubt(died, f"it could not be looked up for {_spoken(self._command.key_ttl)}")
        exc = outcome.error if isinstance(outcome, Raised) else UnknownOutcome("the check did not answer in time")
        error = describe(exc)
        # Asking is harmless: it goes on, ever more rarely, until the key is too old.
        elapsed = self._delivery.now() - (step.started_at or began)
        wait = min(max(backoff.COMMAND.first, elapsed), backoff.COMMAND.longest)
        self._sleep(step.attempts, error, self._delivery.now() + wait, StepState.unknown)

    def _park_in_doubt(self, error: RunError, why: str | None = None) -> None:
        detail = f"{why}; {error.message}" if why else error.message
        self._delivery.park(
            f"step {self._seq}, {self._command.name}, may have happened ({detail}): check, then resume and say whether "
            "it did",
            unknown_step=self._seq,
        )


def _spoken(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:g} s" if seconds < 120 else str(length)
