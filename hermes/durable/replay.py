"""What a durable function asks for between two awaits: steps, numbered as they are asked for and held against the
record, so that a replay that goes another way is seen before it does anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from hermes.clock import Clock
from hermes.durable.codec import Codec
from hermes.durable.command import Command
from hermes.durable.failure import StepRefused
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
from hermes.durable.settings import EngineSettings
from hermes.model.event import NewEvent
from hermes.model.run import NewRun, Run
from hermes.model.step import LeasedRun, Step, StepKind, StepState
from hermes.ports.pending import NewStep, Pending

log = structlog.get_logger("hermes.run")

T = TypeVar("T")
H = TypeVar("H", bound=Handle[Any])

NO_STEP = 0
"""Number of a step that will never be made; real ones count from 1."""

LONGEST_DELAY = timedelta(days=36_525)


class Replay:
    """Of one delivery of a run."""

    def __init__(self, leased: LeasedRun, clock: Clock, settings: EngineSettings) -> None:
        self.run: Run = leased.run
        self.settings = settings
        self.steps: dict[int, Step] = {step.seq: step for step in leased.steps}
        self.waited = any(step.kind is StepKind.event and step.state is StepState.waiting for step in leased.steps)
        """A wait for an event may be open."""
        self._clock = clock
        # What the database found due is due, even where this machine's clock is behind the one that decided.
        self._leased_at = leased.lease.until - settings.lease
        self._seq = self.run.base_seq
        self._new: list[NewStep] = []
        self._passed: list[int] = []
        self._lost: list[int] = []
        self._is_long = False
        """It has just become so."""
        self._unawaited: dict[Handle[Any], None] = {}
        """In the order they were asked for. By handle: a fan-out has no number but that of its first part."""
        self._unpatched: set[str] = set()
        self._refusing: str | None = None
        """Why no further step may be asked for: the run differs from its record, or is being unwound."""
        self._refusals = 0

    @property
    def last_seq(self) -> int:
        """Of the step that was asked for last."""
        return self._seq

    def now(self) -> datetime:
        return max(self._clock.now(), self._leased_at)

    # -- what may be asked for

    def command(self, command: Command[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CommandHandle[T]:
        args_json = command.arguments.dump(args, kwargs, self.settings.max_bytes)
        return self._must_be_awaited(
            CommandHandle(self, self._next(StepKind.command, command.name), command, args_json)
        )

    def delay(self, wait: timedelta, *, not_after: DelayHandle | None = None) -> DelayHandle:
        """Over together with `not_after` at the latest, which must be asked for before."""
        if wait > LONGEST_DELAY:
            raise ValueError(f"a delay of {wait.days:,} days: at most {LONGEST_DELAY.days:,}")
        if not_after is not None:
            wait = min(wait, not_after.wait)
        seq = self._next(StepKind.delay, "delay")
        if self._is_new(seq):
            limit, wait_ = self._due_at(not_after), max(wait, timedelta(0))
            self._new.append(NewStep(seq, StepKind.delay, "delay", wait=wait_, not_after=limit))
        return DelayHandle(self, seq, wait)

    def child(self, child: NewRun, result: Codec) -> ChildHandle[Any]:
        seq = self._next(StepKind.child, child.function)
        if self._is_new(seq):
            child = replace(child, parent_run_id=self.run.id)
            self._new.append(NewStep(seq, StepKind.child, child.function, args_json=child.key, child=child))
        else:
            self._same_args(seq, child.key, f"{child.function} under {{}}")
        return ChildHandle(self, seq, child, result)

    def wait_for_event(
        self,
        name: str,
        instance_id: str,
        timeout: timedelta | None,
        payload: Codec,
        *,
        not_after: DelayHandle | None = None,
    ) -> EventHandle[Any]:
        if timeout is not None and timeout > LONGEST_DELAY:
            raise ValueError(f"a time-out of {timeout.days:,} days: at most {LONGEST_DELAY.days:,}")
        if not_after is not None:
            timeout = not_after.wait if timeout is None else min(timeout, not_after.wait)
        seq = self._next(StepKind.event, name)
        if self._is_new(seq):
            wait, limit = None if timeout is None else max(timeout, timedelta(0)), self._due_at(not_after)
            self._new.append(NewStep(seq, StepKind.event, name, args_json=instance_id, wait=wait, not_after=limit))
        else:
            self._same_args(seq, instance_id, f"event {name} for {{}}")
        return EventHandle(self, seq, name, instance_id, payload)

    def _due_at(self, delay: DelayHandle | None) -> datetime | None:
        """None while it is not recorded: then what is asked for now is recorded with it, and not due later either."""
        step = self.steps.get(delay.seq) if delay is not None else None
        return step.due_at if step is not None else None

    def due_together(self, one: Handle[Any], two: Handle[Any]) -> bool:
        """Of delays and waits that are recorded."""
        return self.steps[one.seq].due_at == self.steps[two.seq].due_at

    def ask_a_person(self, reason: str) -> PersonHandle:
        return self._must_be_awaited(PersonHandle(self, self._next(StepKind.person, "ask_a_person"), reason))

    def fire(self, event: NewEvent) -> FireHandle:
        handle = FireHandle(self, self._next(StepKind.fire, event.name), event)
        self._same_args(handle.seq, event.instance_id, f"fire {event.name} for {{}}")
        return self._must_be_awaited(handle)

    def race(self, members: tuple[Handle[Any], ...]) -> RaceHandle:
        self._await_together(members)
        handle = RaceHandle(self, self._next(StepKind.race, "when_any"), members)
        self._same_args(handle.seq, handle.members_json, "when_any of steps {}")
        return self._must_be_awaited(handle)

    def all(self, members: tuple[Handle[Any], ...]) -> AllHandle:
        self._await_together(members)
        return self._must_be_awaited(AllHandle(self, members)) if members else AllHandle(self, members)

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

    def patched(self, name: str) -> bool:
        """No where something was recorded at this place before the code asked; then for the whole of the run."""
        if name in self._unpatched:
            return False
        before, known = self._before_patch(name)
        if not known and any(seq > before for seq in self.steps):
            self._unpatched.add(name)
            return False
        if self._refusing is None:
            self._seq = before
        seq = self._next(StepKind.patch, name)
        if self._is_new(seq):
            self._new.append(NewStep(seq, StepKind.patch, name, result_json="true"))
        return seq != NO_STEP

    # -- numbers

    def _is_new(self, seq: int) -> bool:
        return seq != NO_STEP and seq not in self.steps

    def _next(self, kind: StepKind, name: str) -> int:
        if self._refusing is not None:
            self._refusals += 1
            if self._refusals > 10:
                return NO_STEP  # code that catches this and asks again for ever is left at its next await
            raise StepRefused(self._refusing)
        self._seq += 1
        while kind is not StepKind.patch and self._is_patch(self._seq):
            self._seq += 1  # a `patched()` that is not asked any more: it did nothing
        recorded = self.steps.get(self._seq)
        if recorded is not None and (recorded.kind, recorded.name) != (kind, name):
            self.differs(self._seq, named(recorded.kind, recorded.name), named(kind, name))
            raise StepRefused(self._refusing)
        if self._seq - self.run.base_seq == self.settings.warn_steps and self._is_new(self._seq):
            self._is_long = True
            log.warning("long history", run_id=self.run.id, function=self.run.function, steps=self.settings.warn_steps)
        if self._seq - self.run.base_seq > self.settings.max_steps:
            self._refusing = (
                f"its history has more than {self.settings.max_steps:,} steps: a function that goes on for ever "
                "returns continue_as_new(...) now and then"
            )
            raise StepRefused(self._refusing)
        return self._seq

    def _before_patch(self, name: str) -> tuple[int, bool]:
        """The number before that of this patch, past others that are not asked for any more; and whether it is
        recorded."""
        before = self._seq
        while self._is_patch(before + 1):
            if self.steps[before + 1].name == name:
                return before, True
            before += 1
        return before, False

    def _is_patch(self, seq: int) -> bool:
        recorded = self.steps.get(seq)
        return recorded is not None and recorded.kind is StepKind.patch

    def _same_args(self, seq: int, args: str, told: str) -> None:
        recorded = self.steps.get(seq)
        if recorded is not None and recorded.args_json != args:
            self.differs(seq, told.format(recorded.args_json), told.format(args))
            raise StepRefused(self._refusing)

    def differs(self, seq: int, recorded: str, now: str) -> None:
        self._refusing = f"the code changed under this run: step {seq}: recorded {recorded}, now {now}"

    # -- what must be awaited

    def _must_be_awaited(self, handle: H) -> H:
        if handle.seq != NO_STEP:
            self._unawaited[handle] = None
        return handle

    def _await_together(self, members: Iterable[Handle[Any]]) -> None:
        for handle in members:
            if handle.delivery is not self:
                raise ValueError(f"{handle!r} is of another run")
            self._unawaited.pop(handle, None)

    # -- what is to be recorded

    def take_pending(self, lost: Iterable[int] = ()) -> Pending:
        long = self.settings.warn_steps if self._is_long else None
        pending = Pending(tuple(self._new), tuple(self._passed), (*self._lost, *lost), long)
        self._is_long = False
        self._new.clear()
        self._passed.clear()
        self._lost.clear()
        return pending

    def decided(self, race: NewStep, lost: Iterable[int]) -> None:
        """To be recorded with whatever comes next: nothing outside has seen it before."""
        self._new.append(race)
        self._lost += lost
        self.steps[race.seq] = Step(
            self.run.id,
            race.seq,
            race.kind,
            race.name,
            StepState.done,
            args_json=race.args_json,
            result_json=race.result_json,
        )

    def recorded(self, steps: Mapping[int, Step], pending: Pending) -> None:
        """What was pending is on the disk."""
        self.steps |= steps
        for seq in pending.passed:
            if seq in self.steps:
                self.steps[seq] = replace(self.steps[seq], state=StepState.done)

    def begun(self, seq: int, name: str, attempt: int) -> None:
        before = self.steps.get(seq) or Step(self.run.id, seq, StepKind.command, name, StepState.started)
        self.steps[seq] = replace(before, state=StepState.started, attempts=attempt, due_at=None)


def named(kind: StepKind, name: str) -> str:
    return name if kind in (StepKind.command, StepKind.delay) else f"{kind} {name}"
