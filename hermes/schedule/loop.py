"""The scheduler: leases polls that are due, has their occurrences run, and notes what came of it.

Several schedulers may work on one database: the poll's row is leased by a conditional UPDATE with a growing fence, and
an occurrence whose scheduler died is due again at the same instant when the lease has run out. What an occurrence does
is the runner's business; whether it happens twice is the claim's and the run key's.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from hermes.config.configuration import PollConfig
from hermes.errors import HermesError
from hermes.ports.polls import OccurrenceEnd, PollChanges, PollDefinition, PollLease, PollStore
from hermes.schedule.cadence import share
from hermes.schedule.failing import disabled_reason, failure_of
from hermes.schedule.occurrence import OccurrenceOutcome, OccurrenceRunner
from hermes.telemetry.logs import bind
from hermes.telemetry.metrics import Metrics

LEASE = timedelta(seconds=60)
LONGEST = timedelta(minutes=30)
"""An occurrence that has not ended by then is no longer kept alive: another scheduler may run it."""
SPREAD = timedelta(seconds=30)
"""Late polls (the machine slept) start within this, not all at once."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Working:
    lease: PollLease
    since: datetime
    lost: bool = False


class Scheduler:
    """`executor` None runs occurrences in the calling thread, one after the other (tests, `--once`)."""

    def __init__(
        self,
        store: PollStore,
        owner: str,
        run: OccurrenceRunner,
        *,
        metrics: Metrics,
        slots: int = 4,
        lease: timedelta = LEASE,
        executor: Executor | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._store = store
        self._owner = owner
        self._run = run
        self._metrics = metrics
        self._slots = slots
        self._lease = lease
        self._executor = executor
        self._redact = redact
        """Applied to error texts before they are stored."""
        self._polls: dict[str, PollConfig] = {}
        self._working: dict[str, _Working] = {}
        self._changed = threading.Condition()
        """Guards `_working` and is notified when an occurrence ends."""
        self._stopping = False

    # configuration

    def apply(self, polls: Iterable[PollConfig]) -> PollChanges:
        """Take over the polls of a configuration; rows of polls that are not among them become `removed`."""
        wanted = {poll.id: poll for poll in polls}
        with self._store.write() as unit:
            changes = unit.polls.sync_definitions([definition_of(poll, unit.now) for poll in wanted.values()])
        self._polls = wanted
        for what in ("added", "edited", "removed", "returned"):
            for poll_id in getattr(changes, what):
                _log.info("poll " + what, poll_id=poll_id)
        return changes

    # the loop

    def tick(self, only: Collection[str] | None = None) -> int:
        """Start what is due; returns how many occurrences. With an executor it waits for none of them. `only`: of these
        polls, for those who want them once."""
        self._keep_alive()
        polls = self._polls if only is None else {name: self._polls[name] for name in only if name in self._polls}
        started = 0
        while not self._stopping:
            free = self._slots - len(self._working) if self._executor else self._slots
            if free <= 0:
                break
            with self._store.read() as unit:
                due = unit.polls.due_count()
            self._metrics.set("polls_due", due)
            if not due:
                break
            with self._store.write() as unit:
                leases = unit.polls.lease_due(self._owner, self._lease, free, partial(self._may_run, polls))
            if not leases:
                break
            for lease in leases:
                started += self._start(polls[lease.poll_id], lease)
        return started

    def stop(self) -> None:
        """Take nothing new. What is running goes on; `wait_idle` waits for it."""
        self._stopping = True

    def wait_idle(self, seconds: float) -> bool:
        """Whether all occurrences of this process have ended within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, timeout=seconds)

    def _may_run(self, polls: Mapping[str, PollConfig], poll_id: str, version: str) -> bool:
        """Another process may have read a newer file: what this one does not know as it is, it leaves alone."""
        poll = polls.get(poll_id)
        return poll is not None and poll.definition_version == version and poll_id not in self._working

    def _start(self, poll: PollConfig, lease: PollLease) -> int:
        if self._is_late(poll, lease):
            if poll.schedule.misfire.policy == "skip":
                self._skip(poll, lease)
                return 0
            if lease.leased_at - lease.start_at > poll.schedule.misfire.grace:
                self._spread(poll, lease)
                return 0
        self._metrics.add("polls_started")
        if self._executor is None:
            self._work(poll, lease)
            return 1
        with self._changed:
            self._working[poll.id] = _Working(lease, lease.leased_at)
        try:
            future = self._executor.submit(self._work, poll, lease)
        except RuntimeError:  # the executor is shut down: the lease runs out and the occurrence is another's
            self._forget(poll.id)
            return 0
        future.add_done_callback(lambda done: self._ended(poll.id, done))
        return 1

    def _forget(self, poll_id: str) -> None:
        with self._changed:
            self._working.pop(poll_id, None)
            self._changed.notify_all()

    def _ended(self, poll_id: str, done: Future[None]) -> None:
        self._forget(poll_id)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("occurrence could not be noted", poll_id=poll_id, exc_info=error)

    def _work(self, poll: PollConfig, lease: PollLease) -> None:
        source = getattr(poll.source, "type", None)
        with bind(poll_id=poll.id, occurrence=lease.occurrence, source_type=source, cursor_before=lease.cursor):
            try:
                outcome = self._run(poll, lease.due_at, lease)
            except Exception as exc:  # noqa: BLE001  (top of a background loop: one poll's bug is that poll's failure)
                outcome = OccurrenceOutcome(error=exc)
            self._finish(poll, lease, outcome)

    def _finish(self, poll: PollConfig, lease: PollLease, outcome: OccurrenceOutcome) -> None:
        late = self._is_late(poll, lease)
        record = bool(outcome.error or outcome.changed or outcome.claimed or lease.by_hand or late)
        # An occurrence that found nothing may be forgotten at a power cut: it is only run again.
        with self._store.write(durable=record) as unit:
            end = self._end(poll, lease, outcome, unit.now, late=late, record=record)
            noted = unit.polls.finish(lease, end)
        if not noted:
            _log.warning("lease of the poll was lost: its bookkeeping is another's", fence=lease.fence)
            return
        self._metrics.add("polls_succeeded" if end.ok else "polls_failed")
        if outcome.error is not None:
            _log.warning(
                "poll failed",
                error=end.error,
                decision="disabled" if end.disabled_reason else "retry",
                next_start_at=end.next_start_at.isoformat(),
                exc_info=None if isinstance(outcome.error, HermesError) else outcome.error,
            )
        elif record:
            after = {} if end.cursor is None else {"cursor_after": end.cursor}
            counts = {name: getattr(end, name) for name in ("checked", "matched", "changed", "claimed")}
            _log.info("poll ran", decision="late" if late else "run", **counts, **after)

    @staticmethod
    def _is_late(poll: PollConfig, lease: PollLease) -> bool:
        retried = lease.failure_count > 0
        return not lease.by_hand and not retried and lease.leased_at - lease.due_at > poll.schedule.misfire.grace

    def _end(
        self, poll: PollConfig, lease: PollLease, outcome: OccurrenceOutcome, now: datetime, *, late: bool, record: bool
    ) -> OccurrenceEnd:
        next_due = poll.cadence.next_due(lease.due_at, now)
        note = outcome.note
        if late and outcome.error is None:
            lateness = f"late: was due {lease.due_at:%Y-%m-%d %H:%M:%S}Z, missed occurrences run once"
            note = f"{lateness}; {note}" if note else lateness
        end = OccurrenceEnd(
            ok=outcome.error is None,
            next_due_at=next_due,
            next_start_at=poll.cadence.start_at(next_due),
            record=record,
            note=note,
            checked=outcome.checked,
            matched=outcome.matched,
            changed=outcome.changed,
            claimed=outcome.claimed,
            cursor=outcome.cursor,
            watermark=outcome.watermark,
        )
        if outcome.error is None:
            return end
        failure = failure_of(outcome.error, lease.failure_count, next_due - now)
        text = self._redact(failure.text)
        retry_at = now + failure.wait
        due_at = lease.due_at if retry_at < next_due and not lease.by_hand else next_due
        reason = None
        if failure.fatal and lease.fatal_count + 1 >= poll.stop.max_consecutive_failures:
            reason = disabled_reason(poll.id, lease.fatal_count + 1, text)
        return replace(
            end,
            fatal=failure.fatal,
            error=text,
            disabled_reason=reason,
            next_due_at=due_at,
            next_start_at=max(retry_at, end.next_start_at) if due_at == next_due else retry_at,
        )

    def _skip(self, poll: PollConfig, lease: PollLease) -> None:
        next_due = poll.cadence.next_due(lease.due_at, lease.leased_at)
        seconds = int((lease.leased_at - lease.due_at).total_seconds())
        end = OccurrenceEnd(
            ok=True,
            skipped=True,
            record=True,
            note=f"skipped: {seconds} s late, and the misfire policy is skip",
            next_due_at=next_due,
            next_start_at=poll.cadence.start_at(next_due),
        )
        with self._store.write() as unit:
            unit.polls.finish(lease, end)
        _log.info("poll skipped", poll_id=poll.id, decision="skip", late_seconds=seconds)

    def _spread(self, poll: PollConfig, lease: PollLease) -> None:
        """After a sleep every poll is late at once: each starts a little later, once."""
        interval = poll.cadence.next_due(lease.due_at, lease.leased_at) - lease.leased_at
        start_at = lease.leased_at + share(poll.id) * min(SPREAD, interval / 2)
        with self._store.write(durable=False) as unit:
            unit.polls.postpone(lease, start_at)

    def _keep_alive(self) -> None:
        """Extends the leases of occurrences that take long."""
        with self._changed:
            working = dict(self._working)
        if not working:
            return
        with self._store.read() as unit:
            now = unit.now
        for poll_id, entry in working.items():
            if entry.lost or entry.lease.until - now > self._lease / 2 or now - entry.since > LONGEST:
                continue
            with self._store.write(urgent=True) as unit:
                until = unit.polls.extend(entry.lease, self._lease)
            held = (
                replace(entry, lost=True) if until is None else replace(entry, lease=replace(entry.lease, until=until))
            )
            with self._changed:
                if poll_id in self._working:
                    self._working[poll_id] = held

    # people

    def run_now(self, poll_id: str) -> bool:
        with self._store.write() as unit:
            return unit.polls.run_now(poll_id)

    def pause(self, poll_id: str) -> bool:
        with self._store.write() as unit:
            return unit.polls.pause(poll_id)

    def resume(self, poll_id: str) -> bool:
        with self._store.write() as unit:
            return unit.polls.resume(poll_id)


def definition_of(poll: PollConfig, now: datetime) -> PollDefinition:
    first = poll.cadence.first_due(now)
    schedule = {**poll.schedule.model_dump(mode="json"), "zone": poll.cadence.zone.key}
    return PollDefinition(
        poll_id=poll.id,
        user_id=poll.owner,
        workspace_id=poll.workspace,
        priority=poll.priority,
        enabled=poll.enabled,
        definition=poll.definition,
        definition_version=poll.definition_version,
        condition_version=poll.condition_version,
        schedule_version=hashlib.sha256(json.dumps(schedule, sort_keys=True).encode()).hexdigest()[:16],
        first_due_at=first,
        first_start_at=poll.cadence.start_at(first),
    )
