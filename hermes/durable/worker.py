"""A worker process: leases runs, drives them in slots, keeps their leases alive, frees the runs of dead workers.

It executes and keeps nothing. Every loop here is a tick that can be called once, by a test or by its thread.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from queue import SimpleQueue

import structlog

from hermes.clock import Clock
from hermes.durable.attempts import Attempts
from hermes.durable.delivery import Delivery
from hermes.durable.heartbeat import Heartbeat
from hermes.durable.held import HeldLease, HeldLeases
from hermes.durable.late import LateWriter
from hermes.durable.recorder import Recorder
from hermes.durable.registry import REGISTRY, Registry
from hermes.durable.settings import EngineSettings
from hermes.errors import LeaseLost, StoreUnavailable
from hermes.model.step import LeasedRun
from hermes.ports.runs import RunsDatabase

log = structlog.get_logger("hermes.worker")


class Worker:
    def __init__(
        self,
        database: RunsDatabase,
        clock: Clock,
        settings: EngineSettings | None = None,
        *,
        registry: Registry = REGISTRY,
        owner: str | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.owner = owner or secrets.token_hex(8)
        """Random for each incarnation: a name, a host or a pid would be taken for the one that died."""
        self.held = HeldLeases()
        self._database = database
        self._clock = clock
        self._registry = registry
        self._attempts = Attempts()
        self._heartbeat = Heartbeat(database, clock, self.held, self.owner, self.settings.lease)
        self._queue: SimpleQueue[tuple[LeasedRun, HeldLease] | None] = SimpleQueue()
        self._late: LateWriter | None = None
        self._busy = 0
        self._unanswered_until = 0.0
        self._given_up: set[tuple[str, int]] = set()
        """Run and fence of those that were driven here until the engine failed: they run out, as after a crash."""
        self._suspect: HeldLease | None = None
        self._suspect_until = 0.0
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._draining = threading.Event()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._unsubscribe: Callable[[], None] = lambda: None
        self._leave: Callable[[], None] = lambda: None

    # -- ticks

    def rescue(self) -> list[str]:
        """Free the runs of workers that are gone, ours of an earlier life among them."""
        gone = self._gone()
        with self._database.write() as unit:
            rescued = unit.leases.rescue(
                poison_after=self.settings.poison_after,
                suspect_after=self.settings.suspect_after,
                suspect_pause=self.settings.suspect_pause,
                gone=gone,
            )
        if gone and not rescued and self._database.presence is not None:
            self._database.presence.forget(gone)
        return rescued

    def _gone(self) -> set[str]:
        """Workers whose process has surely ended: nobody need wait for their leases."""
        presence = self._database.presence
        others = presence.announced() - {self.owner} if presence is not None else set()
        return presence.gone(others) if presence is not None and others else set()

    def lease(self, limit: int) -> list[tuple[LeasedRun, HeldLease]]:
        before = self._clock.boot_seconds()
        names, settings = self._registry.names(), self.settings
        watched = self._suspect in self.held.all() and before < self._suspect_until
        if before < self._unanswered_until:
            self._return_unheld()
        try:
            leased = self._database.commit(
                lambda unit: unit.leases.lease(
                    self.owner,
                    settings.lease,
                    names,
                    limit,
                    suspects=0 if watched else 1,
                    suspect_after=settings.suspect_after,
                )
            )
        except StoreUnavailable:
            self._unanswered_until = self._clock.boot_seconds() + settings.lease.total_seconds()
            raise
        taken = []
        for run in leased:
            held = HeldLease(run.lease, before, settings.lease)
            self.held.add(held)
            taken.append((run, held))
            if run.run.crashes >= settings.suspect_after:
                self._suspect, self._suspect_until = held, before + settings.lease.total_seconds()
        return taken

    def _return_unheld(self) -> None:
        """A lease that was not answered may have been made, now or a little later: its runs are ours, and nobody here
        knows of them. Looked for again and again until such a lease is over; nothing is counted."""
        known = {(held.lease.run_id, held.lease.fence) for held in self.held.all()} | self._given_up
        with self._database.write() as unit:
            for lease in unit.leases.of(self.owner):
                if (lease.run_id, lease.fence) not in known:
                    unit.leases.hand_back(lease)

    def heartbeat(self) -> None:
        self._heartbeat.tick()

    def drive(self, leased: LeasedRun, held: HeldLease) -> None:
        """One delivery, in this thread. Nothing comes out of it."""
        try:
            runnable = self._registry.find(leased.run.function)
            if runnable is None:  # it was asked for by name a moment ago
                raise LookupError(leased.run.function)
            recorder = Recorder(self._database, self._clock, held, self.settings, self._stopped.is_set, self._late)
            delivery = Delivery(leased, runnable, recorder, self._attempts, self._clock, self.settings)
            try:
                delivery.drive()
            except Exception:
                recorder.write_down()
                raise
        except LeaseLost:
            log.info("lease lost", run_id=leased.run.id, fence=leased.lease.fence)
        except Exception:
            # The run keeps its lease until it runs out and is then taken over: the same as a crash, and counted so.
            self._given_up.add((leased.run.id, leased.lease.fence))
            log.exception("the engine failed", run_id=leased.run.id)
        finally:
            self.held.drop(held)

    def run_due(self) -> int:
        """Everything that is due, one after the other in this thread, until nothing is: for tests and scripts."""
        self.rescue()
        count = 0
        while taken := self.lease(1):
            for leased, held in taken:
                self.drive(leased, held)
                count += 1
        return count

    # -- threads

    def start(self) -> None:
        self._unsubscribe = self._database.subscribe(self._wake.set)
        if self._database.presence is not None:
            self._leave = self._database.presence.announce(self.owner)
        self._late = LateWriter()
        loops = {"heartbeat": self._beat, "dispatcher": self._dispatch}
        loops["late"] = self._late.serve
        loops |= {f"slot-{number}": self._serve for number in range(self.settings.slots)}
        for name, loop in loops.items():
            thread = threading.Thread(target=loop, name=f"hermes-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Drain: take nothing new, finish what runs up to a limit, hand back the rest."""
        self._unsubscribe()
        self._draining.set()
        self._wake.set()
        limit = self._clock.boot_seconds() + self.settings.drain.total_seconds()
        while len(self.held) and self._clock.boot_seconds() < limit:
            self._clock.sleep(0.02)
        if self._late is not None:
            self._late.tick()
        for held in self.held.all():
            self._hand_back(held)
        self._stopped.set()
        if self._late is not None:
            self._late.stop()
        for _ in range(self.settings.slots):
            self._queue.put(None)
        self.close()
        for thread in self._threads:
            thread.join(timeout=1)
        self._leave()

    def close(self) -> None:
        """Let go of the threads of commands; for a worker that was only ticked, all there is to stop."""
        self._stopped.set()
        self._attempts.close()

    def _hand_back(self, held: HeldLease) -> None:
        held.lost = True
        try:
            with self._database.write() as unit:
                unit.leases.hand_back(held.lease)
        except StoreUnavailable as exc:
            log.warning("not handed back; its lease will run out", run_id=held.lease.run_id, error=str(exc))

    def _beat(self) -> None:
        pause = self.settings.lease.total_seconds() / 3
        while not self._stopped.wait(pause):
            pause = self.settings.lease.total_seconds() / 3
            try:
                self.heartbeat()
            except StoreUnavailable as exc:
                log.warning("leases not renewed", error=str(exc))
                pause = min(pause / 4, 1.0)
            except Exception:
                log.exception("heartbeat failed")

    def _dispatch(self) -> None:
        tick = self.settings.tick.total_seconds()
        next_rescue = self._clock.boot_seconds()
        while not self._draining.is_set():
            self._wake.clear()
            more = False
            try:
                if self._clock.boot_seconds() >= next_rescue:
                    next_rescue = self._clock.boot_seconds() + tick
                    self.rescue()
                more = self._fill()
            except StoreUnavailable as exc:
                log.warning("no runs leased", error=str(exc))
            except Exception:
                log.exception("dispatcher failed")
            if not more:
                self._wake.wait(tick)

    def _fill(self) -> bool:
        """Lease for the slots that are free; True when it is worth looking again at once."""
        with self._mutex:
            free = self.settings.slots - self._busy
        if free == 0:
            return False
        taken = self.lease(free)
        with self._mutex:
            self._busy += len(taken)
        for item in taken:
            self._queue.put(item)
        return len(taken) == free

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self.drive(*item)
            with self._mutex:
                self._busy -= 1
            self._wake.set()
