"""One-shot faults that tests switch on: what a matching call meets instead of a plain answer.

Kinds: `answer` (refuse before handling), `answer_after` (commit, then answer this), `drop` (commit, then cut the
connection), `hang` (wait, then handle and answer), and for the query route `query` (leave out pages, show them as they
were, or ignore the filter).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sources.board.store import Node, Store

Kind = Literal["answer", "answer_after", "drop", "hang", "query"]


@dataclass(slots=True)
class Fault:
    kind: Kind
    route: str = "*"
    """Label as in the ledger, or `*` for any."""
    page_id: str | None = None
    """Only calls that name this object in their path or body."""
    times: int = 1
    """How many matching calls meet it; -1 is until cleared."""
    skip: int = 0
    """How many matching calls pass before it."""
    status: int = 500
    code: str = "internal_server_error"
    message: str = "Unexpected error occurred."
    headers: dict[str, str] = field(default_factory=dict)
    additional_data: dict[str, Any] | None = None
    html: str | None = None
    """The body is this page instead of Notion's envelope."""
    seconds: float = 0.0
    hides: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    """Pages that the query shows as they were when the fault was set."""
    ignore_filter: bool = False
    before: dict[str, Node] = field(default_factory=dict)


_FIELDS = {
    "kind", "route", "page_id", "times", "skip", "status", "code", "message", "headers", "additional_data", "html",
    "seconds", "hides", "stale", "ignore_filter",
}  # fmt: skip


class Faults:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: list[Fault] = []

    def add(self, description: dict[str, Any]) -> Fault:
        """Raises ValueError for what it does not understand."""
        unknown = description.keys() - _FIELDS
        if unknown:
            raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
        if description.get("kind") not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}")
        fault = Fault(**description)
        fault.hides, fault.stale = tuple(fault.hides), tuple(fault.stale)
        fault.before = {node_id: node for node_id in fault.stale if (node := self._store.get(node_id)) is not None}
        self._queue.append(fault)
        return fault

    def clear(self) -> None:
        self._queue.clear()

    def pending(self) -> list[dict[str, Any]]:
        return [{name: getattr(fault, name) for name in sorted(_FIELDS)} for fault in self._queue]

    def take(self, route: str, object_ids: Iterable[str]) -> Fault | None:
        """The first fault that this call meets; it is spent by it."""
        named = set(object_ids)
        for fault in self._queue:
            if fault.route not in ("*", route) or (fault.page_id is not None and fault.page_id not in named):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.times > 0:
                fault.times -= 1
                if fault.times == 0:
                    self._queue.remove(fault)
            return fault
        return None
