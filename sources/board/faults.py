"""What a matching call meets instead of a plain answer: one-shot faults, which wait in a queue until their call comes.

A fault is described by its `name` (the table in named_faults.py) or by the fields of its mechanism. Faults that come by
rate are in fault_plan.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from sources.board.named_faults import describe
from sources.board.store import Node, Store

Kind = Literal[
    "answer", "answer_after", "drop", "drop_before", "hang", "ghost", "garbled", "trickle", "lenient", "query", "edit"
]
"""`answer`: refuse before handling. `answer_after`: commit, then answer this. `drop`: commit, then cut the connection;
`drop_before` cuts it instead of handling. `hang`: wait, then handle and answer. `ghost`: answer this (without a status:
cut the connection) and handle `seconds` later. `garbled`: commit, then answer 200 with what is no answer. `trickle`:
commit, then answer a byte at a time. `lenient`: columns that do not exist are passed over. `query`: what a query shows.
`edit`: a person changes the board before the call is handled, or after."""
Calls: TypeAlias = Literal["any", "read", "write", "query"]
"""`query` is a read."""


@dataclass(slots=True)
class Fault:
    kind: Kind
    name: str | None = None
    """As the ledger shows it; without one the kind is shown."""
    value: Any = None
    """What was given with the name."""
    route: str = "*"
    """Label as in the ledger, or `*` for any."""
    calls: Calls = "any"
    page_id: str | None = None
    """Only calls that name this object in their path or body."""
    bot: str | None = None
    """Only calls of this author."""
    times: int = 1
    """How many matching calls meet it; -1 is until cleared."""
    skip: int = 0
    """How many matching calls pass before it."""
    status: int | None = 500
    code: str = "internal_server_error"
    message: str = "Unexpected error occurred."
    headers: dict[str, str] = field(default_factory=dict)
    additional_data: dict[str, Any] | None = None
    html: str | None = None
    """The body is this page instead of Notion's envelope."""
    holds: Literal["", "bot", "workspace"] = ""
    """Until Retry-After is over, whom the board goes on refusing."""
    seconds: float = 0.0
    garble: Literal["truncated", "other", "html"] = "truncated"
    hides: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    """Pages that the query shows as they were when the fault was set."""
    lag_seconds: float = 0.0
    """The query shows every page as it was so long ago."""
    missing_seconds: float = 0.0
    """The query leaves out what is new or was changed within so long."""
    ignore_filter: bool = False
    cursor_expired: bool = False
    edit: dict[str, Any] = field(default_factory=dict)
    """What a person does: see edits.py."""
    when: Literal["before", "after"] = "before"
    before: dict[str, Node] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        return self.name or self.kind

    def fits(self, route: str, writes: bool, named: set[str], user_id: str) -> bool:
        return (
            self.route in ("*", route)
            and fits(self.calls, route, writes)
            and (self.page_id is None or self.page_id in named)
            and (self.bot is None or self.bot == user_id)
        )


_READ = TypeAdapter(Fault)
_FIELDS = tuple(name for name in Fault.__dataclass_fields__ if name != "before")


def fits(calls: Calls, route: str, writes: bool) -> bool:
    match calls:
        case "any":
            return True
        case "write":
            return writes
        case "read":
            return not writes
        case "query":
            return route.endswith("/query")


def build(description: dict[str, Any]) -> Fault:
    """Raises ValueError for what it does not understand."""
    if "name" in description:
        description = describe(description)
    unknown = description.keys() - set(_FIELDS)
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    if description.get("kind") not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}")
    try:
        return _READ.validate_python(description)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class Faults:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: list[Fault] = []

    def add(self, description: dict[str, Any]) -> Fault:
        """Raises ValueError for what it does not understand."""
        fault = build(description)
        fault.before = {node_id: node for node_id in fault.stale if (node := self._store.get(node_id)) is not None}
        self._queue.append(fault)
        return fault

    def clear(self) -> None:
        self._queue.clear()

    def pending(self) -> list[dict[str, Any]]:
        return [{name: getattr(fault, name) for name in sorted(_FIELDS)} for fault in self._queue]

    def take(self, route: str, writes: bool, object_ids: Iterable[str], user_id: str) -> Fault | None:
        """The first fault that this call meets; it is spent by it."""
        named = set(object_ids)
        for fault in self._queue:
            if not fault.fits(route, writes, named, user_id):
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
