"""Lets threads that want to write at the same moment share one transaction, and so one wait for the disk.

Whoever comes first writes for all that have queued meanwhile; the others find their change made. When one of them is
refused, which is rare, the transaction is given up and made again with each change in a savepoint of its own, so that
the refused one takes nothing of the others with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.errors import StoreDamaged, StoreUnavailable
from store.outages import translated

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

T = TypeVar("T")

MOST = 32
"""Changes in one transaction: a heartbeat waits for no more than this."""


class GroupCommit:
    def __init__(self, write: Callable[[], AbstractContextManager[UnitOfWork]]) -> None:
        self._write = write
        self._queue: deque[_Change] = deque()
        self._led = False
        """Somebody writes, and will hand on to the first in the queue."""
        self._mutex = threading.Lock()

    def commit(self, change: Callable[[UnitOfWork], T]) -> T:
        """Returns what `change` returned once it is on the disk, or raises what it raised; then it changed nothing."""
        mine = _Change(change)
        with self._mutex:
            self._queue.append(mine)
            mine.leads = not self._led
            self._led = True
        if not mine.leads:
            self._wait(mine)
        if mine.leads:
            try:
                with self._mutex:  # whoever leads is the first in the queue
                    changes = [self._queue.popleft() for _ in range(min(len(self._queue), MOST))]
                self._commit(changes)
            finally:
                self._hand_on()
        if mine.error is not None:
            raise mine.error
        result: T = mine.result
        return result

    def _wait(self, mine: _Change) -> None:
        """Until it is made, or it is this thread's turn to lead. Each waits at a lock of its own: were they all to
        queue at one, they would leave it one after the other, each as it gets the interpreter."""
        try:
            mine.turn.acquire()
        except BaseException:  # this thread was interrupted
            with self._mutex:
                if mine in self._queue:
                    self._queue.remove(mine)
                leads = mine.leads
            if leads:
                self._hand_on()
            raise

    def _hand_on(self) -> None:
        with self._mutex:
            following = self._queue[0] if self._queue else None
            self._led = following is not None
            if following is not None:
                following.leads = True
        if following is not None:
            following.turn.release()

    def _commit(self, changes: list[_Change]) -> None:
        try:
            if len(changes) == 1:
                with self._write() as unit:
                    changes[0].make(unit)
            elif not self._made_together(changes):
                with self._write() as unit:
                    for change in changes:
                        change.make_apart(unit)
        except BaseException as exc:
            for change in changes:
                if isinstance(exc, StoreDamaged):
                    change.error = exc
                else:
                    change.error = StoreUnavailable(f"the transaction was given up: {exc}")
            if not isinstance(exc, StoreUnavailable):
                raise  # of this thread: the one change it made alone, or an interruption
        finally:
            for change in changes:
                if not change.leads:
                    change.turn.release()

    def _made_together(self, changes: list[_Change]) -> bool:
        """False when one of them was refused: then none is made."""
        with suppress(_Refused), self._write() as unit:
            for change in changes:
                try:
                    change.make(unit)
                except BaseException as exc:
                    raise _Refused from exc
            return True
        return False


class _Refused(Exception):
    pass


class _Change:
    def __init__(self, change: Callable[[UnitOfWork], Any]) -> None:
        self._change = change
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.turn = threading.Lock()
        self.turn.acquire()

    def make(self, unit: UnitOfWork) -> None:
        self.result = self._change(unit)

    def make_apart(self, unit: UnitOfWork) -> None:
        execute = unit.connection.exec_driver_sql
        execute("SAVEPOINT one_change")
        try:
            with translated():
                self.result = self._change(unit)
        except BaseException as exc:  # noqa: BLE001 - of its own thread, which raises it again
            execute("ROLLBACK TO SAVEPOINT one_change")
            self.error = exc
        execute("RELEASE SAVEPOINT one_change")
