"""Awaiting steps that end by another hand, and several steps at once.

A race and `when_all` differ only in when they are over: with the first of their steps, or with the last. Commands
among them run side by side; while one is under way the run stays here, else it hibernates until something is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from hermes.crash_points import CrashPoint, reach
from hermes.durable.attempts import Attempt
from hermes.durable.command_step import CommandStep, Postponed
from hermes.durable.handles import ChildHandle, CommandHandle, DelayHandle, EventHandle, Handle, RaceHandle
from hermes.durable.outcome import Left
from hermes.model.step import Step, StepKind, StepState
from hermes.ports.pending import NewStep, Pending

if TYPE_CHECKING:
    from hermes.durable.delivery import Delivery

_OVER = (StepState.done, StepState.failed)


class Waiting:
    def __init__(self, delivery: Delivery, members: Sequence[Handle[Any]], race: RaceHandle | None = None) -> None:
        self._delivery = delivery
        self._recorder = delivery.recorder
        self._members = list(dict.fromkeys(members))  # one named twice is one
        self._race = race
        self._flying: dict[int, tuple[CommandStep, int, Attempt]] = {}
        """Attempts under way: their step, number and ticket."""
        self._landed: SimpleQueue[tuple[int, int]] = SimpleQueue()
        """Step and attempt: one that came too late may end while the next one is under way."""
        self._opened: set[int] = set()

    def settle(self) -> Handle[Any] | None:
        """Until all are over; of a race, the winner. Raises Left when the run sleeps instead."""
        try:
            while True:
                if self._race is not None and self._race.seq in self._delivery.steps:
                    return self._winner(self._race)
                now = self._delivery.now()
                over = {handle: at for handle in self._members if (at := self._over_since(handle, now)) is not None}
                if self._race is not None and over:
                    return self._decide(self._race, min(over, key=lambda handle: (over[handle], handle.seq)))
                if len(over) == len(self._members) and not self._record_time_outs():
                    return None
                if len(over) < len(self._members):
                    self._advance([handle for handle in self._members if handle not in over])
        finally:
            for _, _, attempt in self._flying.values():
                attempt.leave()

    def _over_since(self, handle: Handle[Any], now: datetime) -> datetime | None:
        step = self._delivery.steps.get(handle.seq)
        if handle.outcome is not None:
            return step.finished_at or step.due_at or now if step is not None else now
        if step is None:
            return now if isinstance(handle, DelayHandle) and handle.wait <= timedelta(0) else None
        if isinstance(handle, (DelayHandle, EventHandle)) and step.due_at is not None and step.due_at <= now:
            return step.finished_at or step.due_at if step.state is StepState.done else step.due_at
        if step.state in _OVER:
            return step.finished_at or now
        return None

    # -- events whose time is over, races

    def _record_time_outs(self) -> bool:
        """True when there was one: it may have been served in the last moment."""
        timed_out = [
            handle
            for handle in self._members
            if isinstance(handle, EventHandle) and self._delivery.steps[handle.seq].state is StepState.waiting
        ]
        if timed_out:
            self._close(timed_out, None, [handle.seq for handle in timed_out], [])
        return bool(timed_out)

    def _decide(self, race: RaceHandle, winner: Handle[Any]) -> Handle[Any]:
        delivery = self._delivery
        lost = [
            handle.seq
            for handle in self._members
            if isinstance(handle, CommandHandle)
            and handle is not winner
            and handle.outcome is None
            and handle.seq in delivery.steps
            and delivery.steps[handle.seq].state not in _OVER
        ]
        # What was taken before this race is of no more weight than the others.
        events = [
            handle
            for handle in self._members
            if isinstance(handle, EventHandle)
            and not ((step := delivery.steps.get(handle.seq)) is not None and step.state in _OVER)
        ]
        decision = self._decision(race, winner.seq)
        if events:
            waits = winner.seq in {handle.seq for handle in events}
            standing = delivery.steps.get(winner.seq)
            timed_out = [winner.seq] if waits and standing and standing.state is StepState.waiting else []
            self._close(events, decision, timed_out, lost)
        else:
            delivery.decided(decision, lost)
        self._mark_lost(lost)
        return self._winner(race)

    def _mark_lost(self, commands: Iterable[int]) -> None:
        steps = self._delivery.steps
        for seq in commands:
            if steps[seq].state not in _OVER:
                steps[seq] = replace(steps[seq], state=StepState.lost, due_at=None)

    def _winner(self, race: RaceHandle) -> Handle[Any]:
        """As recorded."""
        step = self._delivery.steps[race.seq]
        return next(handle for handle in self._members if handle.seq == int(step.result_json or 0))

    def _decision(self, race: RaceHandle, winner: int | None) -> NewStep:
        result = None if winner is None else str(winner)
        return NewStep(race.seq, StepKind.race, race.name, args_json=race.members_json, result_json=result)

    def _close(
        self, events: Sequence[EventHandle[Any]], race: NewStep | None, timed_out: list[int], lost: list[int]
    ) -> None:
        self._write_down()
        pending = self._delivery.take_pending(lost)
        self._delivery.recorded(
            self._recorder.write(
                lambda unit: unit.waits.close(
                    self._recorder.lease,
                    [handle.new for handle in events],
                    race=race,
                    timed_out=timed_out,
                    pending=pending,
                )
            ),
            pending,
        )

    def _write_down(self) -> None:
        """A result that waits for company would take the run's row before the locks of the pairs are taken: whoever
        fires for a wait of this run has them, and wants the row."""
        if self._delivery.waited:
            self._recorder.write_down()

    # -- going on

    def _advance(self, still: list[Handle[Any]]) -> None:
        if self._start_commands(still):
            return
        if self._flying:
            self._await_landing(still)
        else:
            self._sleep(still)

    def _start_commands(self, still: list[Handle[Any]]) -> bool:
        """True when something came of it that must be looked at first."""
        delivery, now = self._delivery, self._delivery.now()
        due: list[tuple[CommandStep, int, int]] = []
        for handle in still:
            step = delivery.steps.get(handle.seq)
            waits = step is not None and step.due_at is not None and step.due_at > now
            if not isinstance(handle, CommandHandle) or handle.seq in self._flying or waits:
                continue
            if len(self._flying) + len(due) >= delivery.settings.fan_out:
                break
            command = CommandStep(delivery, handle, together=True)
            try:
                found = command.next()
            except Postponed:
                delivery.look_again()
                return True
            if not isinstance(found, int):
                handle.outcome = found
                return True
            due.append((command, handle.seq, found))
        if not due:
            return False
        if self._open_waits(still, None):
            return True
        self._begin(due)
        return False

    def _begin(self, due: list[tuple[CommandStep, int, int]]) -> None:
        delivery = self._delivery
        pending = delivery.take_pending()
        reach(CrashPoint.before_intent)

        def intend(unit: Any) -> dict[int, Step]:
            recorded: dict[int, Step] = {}
            rest = pending
            for command, _, attempt in due:
                recorded |= command.intend(unit, attempt, rest)
                rest = Pending()
            return recorded

        recorded = self._recorder.write(intend)
        delivery.recorded(recorded, pending)
        reach(CrashPoint.after_intent)
        for command, seq, attempt in due:
            self._recorder.make_sure()
            delivery.begun(seq, command.name, attempt)
            landed = partial(self._landed.put, (seq, attempt))
            self._flying[seq] = command, attempt, command.begin(attempt, landed)

    def _await_landing(self, still: list[Handle[Any]]) -> None:
        """For one attempt that is under way; not longer than until something else may be due."""
        try:
            seq, number = self._landed.get(timeout=max(self._patience(still), 0))
        except Empty:
            late = [seq for seq, (_, _, attempt) in self._flying.items() if attempt.remaining() <= timedelta(0)]
            for seq in late:
                self._land(seq)
            if not late and any(isinstance(handle, (EventHandle, ChildHandle)) for handle in still):
                self._delivery.look_again()
            return
        if seq in self._flying and self._flying[seq][1] == number:
            self._land(seq)

    def _patience(self, still: list[Handle[Any]]) -> float:
        now = self._delivery.now()
        waits = [attempt.remaining().total_seconds() for _, _, attempt in self._flying.values()]
        for handle in still:
            step = self._delivery.steps.get(handle.seq)
            if step is None or step.due_at is None or handle.seq in self._flying:
                continue
            if step.due_at > now or not isinstance(handle, CommandHandle):  # a command that is due waits for room
                waits.append((step.due_at - now).total_seconds())
        # Not longer than a tick: clocks are set and machines are suspended, and what others end must be looked for.
        return min(*waits, self._delivery.settings.tick.total_seconds())

    def _land(self, seq: int) -> None:
        command, number, attempt = self._flying.pop(seq)
        outcome = attempt.outcome or attempt.give_up()
        reach(CrashPoint.effect_sent)
        handle = next(handle for handle in self._members if handle.seq == seq)
        try:
            handle.outcome = command.finish(outcome, number)
        except Postponed:
            self._delivery.look_again()

    def _open_waits(self, still: list[Handle[Any]], reason: str | None) -> bool:
        """With a reason the run sleeps. True when a wait was served."""
        waits = [handle for handle in still if isinstance(handle, EventHandle) and handle.seq not in self._opened]
        if not waits:
            return False
        delivery, race = self._delivery, self._race
        lost = [
            handle.seq
            for handle in still
            if race is not None and isinstance(handle, CommandHandle) and handle.seq in delivery.steps
        ]
        self._write_down()
        pending = delivery.take_pending()
        awaits = [
            handle.seq for handle in still if not isinstance(handle, CommandHandle) or handle.seq in delivery.steps
        ]
        recorded, sleeps = self._recorder.write(
            lambda unit: unit.waits.open(
                self._recorder.lease,
                [handle.new for handle in waits],
                race=self._decision(race, None) if race is not None else None,
                lost=lost,
                awaits=awaits,
                reason=reason,
                pending=pending,
            )
        )
        delivery.waited = True
        self._opened |= {handle.seq for handle in waits}
        delivery.recorded(recorded, pending)
        if race is not None and race.seq in delivery.steps:
            self._mark_lost(lost)
        if sleeps:
            reach(CrashPoint.delay_armed)
            raise Left
        return any(delivery.steps[handle.seq].state in _OVER for handle in waits)

    def _sleep(self, still: list[Handle[Any]]) -> None:
        delivery = self._delivery
        self._leave_if_parked(still)
        reason = self._reason(still)
        self._opened.clear()  # opening again is harmless, and sees what was fired meanwhile
        if self._open_waits(still, reason):
            return
        pending = delivery.take_pending()
        seqs = [handle.seq for handle in still]
        self._recorder.write(
            lambda unit: unit.endings.hibernate(self._recorder.lease, None, reason, awaits=seqs, pending=pending)
        )
        reach(CrashPoint.delay_armed)
        raise Left

    def _leave_if_parked(self, still: list[Handle[Any]]) -> None:
        """A child that needs a person takes its parent along, unless something else can still win."""
        parked = [
            step
            for handle in still
            if (step := self._delivery.steps.get(handle.seq)) is not None and step.state is StepState.parked
        ]
        if parked and (self._race is None or len(parked) == len(still)):
            step = parked[0]
            why = step.error.message if step.error else "it needs attention"
            self._delivery.park(f"step {step.seq}: {step.name}, run {step.awaits_run_id}: {why}")

    def _reason(self, still: list[Handle[Any]]) -> str:
        told = ", ".join(_told(handle, self._delivery.steps.get(handle.seq)) for handle in still[:3])
        more = f" and {len(still) - 3} more" if len(still) > 3 else ""
        return f"{'first of ' if self._race is not None else ''}{told}{more}"


def _told(handle: Handle[Any], step: Step | None) -> str:
    if isinstance(handle, EventHandle):
        return f"step {handle.seq} waits for event {handle.name}, {handle.instance_id}"
    if isinstance(handle, ChildHandle):
        run = f", run {step.awaits_run_id}" if step is not None and step.awaits_run_id else ""
        return f"step {handle.seq} waits for {handle.name}{run}"
    if isinstance(handle, CommandHandle):
        return f"step {handle.seq}: next attempt of {handle.name}"
    return f"step {handle.seq}: delay"
