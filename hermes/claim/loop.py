"""Threads that work the desk of a process: woken by commits that made something due, else at every tick."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from hermes.claim.desk import Desk
from hermes.errors import StoreUnavailable

log = structlog.get_logger("hermes.claim")


class DeskLoop:
    """`subscribe` is the database's: it calls back after commits of this process that made a card due."""

    def __init__(
        self,
        desk: Desk,
        subscribe: Callable[[Callable[[], None]], Callable[[], None]],
        *,
        threads: int,
        tick_seconds: float,
    ) -> None:
        self._desk = desk
        self._subscribe = subscribe
        self._tick_seconds = tick_seconds
        self._stopping = threading.Event()
        self._wakes = [threading.Event() for _ in range(threads)]
        self._threads: list[threading.Thread] = []
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._unsubscribe = self._subscribe(self.wake)
        for number, wake in enumerate(self._wakes):
            thread = threading.Thread(target=self._serve, args=(wake,), name=f"hermes-desk-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def wake(self) -> None:
        for wake in self._wakes:
            wake.set()

    def stop(self) -> None:
        """Returns when no thread is in the middle of a card."""
        self._unsubscribe()
        self._stopping.set()
        self.wake()
        for thread in self._threads:
            thread.join()

    def _serve(self, wake: threading.Event) -> None:
        while not self._stopping.is_set():
            wake.clear()
            try:
                while not self._stopping.is_set() and self._desk.tick(limit=1):
                    pass
            except StoreUnavailable as error:
                log.warning("no card was worked on", error=str(error))
            except Exception:  # top of a background loop; the card's hold runs out and it is looked at again
                log.exception("the desk failed")
            wake.wait(self._tick_seconds)
