"""Everything that may befall a call, in one place: one-shot faults, the plan, limits that were told, and writes that
are still under way although their client was answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sources.board.board import Board
from sources.board.call import Call
from sources.board.edits import make_edit
from sources.board.errors import NotionError
from sources.board.fault_plan import Plan
from sources.board.faults import Fault, Faults
from sources.board.history import History
from sources.board.ids import PERSON_ID
from sources.board.ledger import Entry, Ledger
from sources.board.throttle import Throttle


@dataclass(frozen=True, slots=True)
class Ghost:
    """A write that lands although its client has been told something else, or nothing."""

    due_at: datetime
    call: Call
    entry: Entry
    handle: Callable[[Call, Entry], Any]


class Disturbances:
    def __init__(self, board: Board, ledger: Ledger) -> None:
        self.plan: Plan | None = None
        self.throttle = Throttle()
        self._board = board
        self._ledger = ledger
        self._faults = Faults(board.store)
        self._history = History(board)
        self._ghosts: list[Ghost] = []

    def add(self, description: dict[str, Any]) -> None:
        """A one-shot fault, or `{"plan": {...}}`. Raises ValueError for what it does not understand."""
        if description.keys() == {"plan"}:
            self.plan = Plan.of(description["plan"])
            self.throttle.budgets = self.plan.budgets
        else:
            self._faults.add(description)

    def clear(self) -> None:
        """What is under way already lands all the same."""
        self.plan = None
        self.throttle.clear()
        self._faults.clear()

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"pending": self._faults.pending()}
        if self.plan is not None:
            shown["plan"] = self.plan.shown()
        if self._ghosts:
            shown["landing"] = len(self._ghosts)
        return shown

    def limit(self, call: Call, entry: Entry) -> None:
        """Raises the 429 of a call that comes while its integration, or the workspace, is to be silent."""
        if call.user_id == PERSON_ID:  # people use the app, which has no such limit
            return
        early = self.throttle.is_early(call.user_id, call.now)
        refusal = self.throttle.refusal(call.user_id, call.now)
        if refusal is not None:
            reason = (refusal.additional_data or {}).get("rate_limit_reason", "")
            self._ledger.met(entry, "workspace_limited" if "space" in reason else "rate_limited", early=early)
            raise refusal

    def take(self, call: Call, entry: Entry, *, writes: bool) -> Fault | None:
        """What this call meets."""
        fault = self._faults.take(entry.route, writes, entry.objects, call.user_id)
        plan = self.plan
        if fault is None and plan is not None:
            meets = call.user_id in plan.bots if plan.bots else call.user_id != PERSON_ID
            fault = plan.draw(entry.route, writes, entry.objects) if meets else None
        if fault is not None:
            self._ledger.met(entry, fault.shown)
            if fault.holds:
                everybody = fault.holds == "workspace"
                self.throttle.told(call.user_id, float(fault.headers["Retry-After"]), call.now, everybody=everybody)
        return fault

    def shade(self, fault: Fault, call: Call) -> None:
        """Make a query see what the fault lets it see."""
        hidden, stale = set(fault.hides), dict(fault.before)
        if fault.lag_seconds:
            for page_id, before in self._history.since(call.now - timedelta(seconds=fault.lag_seconds)).items():
                if before is None:
                    hidden.add(page_id)
                else:
                    stale[page_id] = before
        if fault.missing_seconds:
            hidden |= self._history.since(call.now - timedelta(seconds=fault.missing_seconds)).keys()
        call.hidden, call.stale, call.ignores_filter = frozenset(hidden), stale, fault.ignore_filter
        call.cursor_expired = fault.cursor_expired

    def edit(self, fault: Fault, entry: Entry) -> None:
        """A person's hand. Raises ValueError where it cannot be done."""
        try:
            make_edit(self._board, fault.edit, entry.objects)
        except NotionError as error:
            raise ValueError(f"{fault.shown}: {error.message}") from error

    def webhook_fault(self, number: int) -> str | None:
        plan = self.plan
        return plan.webhook_fault(number) if plan is not None else None

    def haunt(self, ghost: Ghost) -> None:
        ghost.entry.outcome = "pending"
        self._ghosts.append(ghost)

    def land(self) -> None:
        """What is due lands, in its order and at its time. Asked before anything else looks at the board."""
        now = self._board.now()
        while due := [ghost for ghost in self._ghosts if ghost.due_at <= now]:
            ghost = min(due, key=lambda ghost: ghost.due_at)
            self._ghosts.remove(ghost)
            ghost.call.now = ghost.due_at
            try:
                ghost.handle(ghost.call, ghost.entry)
            except NotionError:
                continue  # the ledger says so; nobody is there to be told
