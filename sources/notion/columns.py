"""Which column and which option of a board stands for what. Read from the schema by name once, by id from then on.

Ids survive renames, so a board may be relabelled while Hermes runs. What is missing is gathered and told at once.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.errors import Misconfigured
from hermes.model.card import CardStatus
from sources.notion.config import BoardSettings

TYPES: Mapping[str, tuple[str, ...]] = {
    "title": ("title",),
    "status": ("status", "select"),
    "priority": ("select", "number", "status"),
    "claimed_by": ("rich_text",),
    "run_id": ("rich_text",),
    "claimed_at": ("date",),
    "claim_expires_at": ("date",),
    "completed_at": ("date",),
    "retry_count": ("number",),
    "last_error": ("rich_text",),
    "description": ("rich_text",),
}
"""Types each logical column may have. People, formulas and rollups, which we could not write or trust, are never
among them."""

OPTIONAL = frozenset({"description"})
TYPE_NAMES = {"rich_text": "text", "select": "select", "status": "status", "number": "number", "date": "date"}


@dataclass(frozen=True, slots=True)
class Option:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the board that stands for a logical one."""

    logical: str
    id: str
    name: str
    type: str
    options: tuple[Option, ...] = ()

    def option_by_id(self, option_id: str) -> Option | None:
        return next((option for option in self.options if option.id == option_id), None)


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing the board lacks. `column` with no `option`: the column itself."""

    logical: str
    column: str
    types: tuple[str, ...]
    option: str | None = None
    found_type: str | None = None
    """The column is there, with a type that cannot be used."""
    twins: tuple[str, ...] = ()
    """Names that fit equally well."""

    def __str__(self) -> str:
        types = " or ".join(TYPE_NAMES.get(kind, kind) for kind in self.types)
        if self.twins:
            return f"column {self.column!r} could be any of {', '.join(map(repr, self.twins))}"
        if self.found_type:
            return f"column {self.column!r} is of type {self.found_type}, needed: {types}"
        if self.option is not None:
            return f"option {self.option!r} in column {self.column!r} ({types})"
        return f"column {self.column!r} ({types})"


@dataclass(frozen=True, slots=True)
class Columns:
    """The board's columns as far as they are there; `missing` says what is not."""

    by_logical: Mapping[str, Column]
    roles: Mapping[CardStatus, Option]
    ranks: Mapping[str, float]
    """Priority rank by option id."""
    ordered: Mapping[str, str]
    """Option id of each name in `priority_order`."""
    descending: bool
    """Number priorities: the highest first."""
    missing: tuple[Missing, ...]
    names: tuple[str, ...] = field(default=())
    """Every column of the board, for messages."""

    def get(self, logical: str) -> Column | None:
        return self.by_logical.get(logical)

    def require(self, logical: str) -> Column:
        column = self.by_logical.get(logical)
        if column is None:
            raise Misconfigured(explain(m for m in self.missing if m.logical == logical))
        return column

    def require_all(self) -> None:
        """Before claiming: one error that names everything."""
        if self.missing:
            raise Misconfigured(f"{explain(self.missing)}. The board has: {', '.join(map(repr, self.names))}")

    def option_for(self, status: CardStatus) -> Option:
        """The option to write. Attention falls back on failed where the board has no option of its own."""
        option = self.roles.get(status)
        if option is None and status is CardStatus.attention:
            option = self.roles.get(CardStatus.failed)
        if option is None:
            status_column = self.require("status")
            missing = [m for m in self.missing if m.logical == "status"]
            raise Misconfigured(
                explain(missing) if missing else f"column {status_column.name!r} has no option for {status.value}"
            )
        return option

    def role_of(self, option: Mapping[str, Any] | None) -> CardStatus:
        """By id; by name for an option that was made after the schema was read."""
        if not option:
            return CardStatus.other
        for role, known in self.roles.items():
            if known.id == option.get("id"):
                return role
        status = self.by_logical.get("status")
        if status and status.option_by_id(str(option.get("id"))):
            return CardStatus.other
        name = str(option.get("name") or "")
        return next((role for role, known in self.roles.items() if fold(known.name) == fold(name)), CardStatus.other)

    def rank_of(self, value: object, option_id: str | None) -> float:
        """Lowest first; nothing is last."""
        if isinstance(value, bool) or value is None:
            return math.inf
        if isinstance(value, int | float):
            return -float(value) if self.descending else float(value)
        return self.ranks.get(option_id or "", float(len(self.ranks)))


def read_columns(schema: Mapping[str, Any], settings: BoardSettings, known: Columns | None = None) -> Columns:
    """`schema` is a data source as answered. Columns and options of `known` are found again by id."""
    properties = [entry for entry in (schema.get("properties") or {}).values() if isinstance(entry, dict)]
    found: dict[str, Column] = {}
    missing: list[Missing] = []
    for logical, wanted in wanted_columns(settings).items():
        column, problem = _find(logical, wanted, properties, known)
        if column is not None:
            found[logical] = column
        elif problem is not None:
            missing.append(problem)

    roles: dict[CardStatus, Option] = {}
    if status := found.get("status"):
        for role, name in settings.statuses.by_role().items():
            option = _find_option(status, name, known.roles.get(role) if known else None)
            if option is None:
                missing.append(Missing("status", status.name, (status.type,), option=name))
            else:
                roles[role] = option

    priority = found.get("priority")
    ordered, unknown = _ordered(priority, settings, known)
    return Columns(
        by_logical=found,
        roles=roles,
        ranks=_ranks(priority, ordered),
        ordered=ordered,
        descending=settings.priority_order == "descending",
        missing=(*missing, *unknown),
        names=tuple(str(entry.get("name")) for entry in properties),
    )


def wanted_columns(settings: BoardSettings) -> dict[str, str]:
    """Logical columns by the name they should have; the title has whatever name it has."""
    names: dict[str, str | None] = {"title": "title", **settings.columns.model_dump()}
    return {logical: name for logical, name in names.items() if name is not None}


def explain(missing: Iterable[Missing]) -> str:
    things = "; ".join(map(str, missing))
    return f"The board lacks {things}" if things else "The board lacks a column"


def fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip().casefold()


def _find(
    logical: str, wanted: str, properties: list[dict[str, Any]], known: Columns | None
) -> tuple[Column | None, Missing | None]:
    types = TYPES[logical]
    before = known.get(logical) if known else None
    if logical == "title":
        fitting = [entry for entry in properties if entry.get("type") == "title"]
    elif before is not None and any(entry.get("id") == before.id for entry in properties):
        fitting = [entry for entry in properties if entry.get("id") == before.id]
    else:
        fitting = [entry for entry in properties if entry.get("name") == wanted] or [
            entry for entry in properties if fold(str(entry.get("name"))) == fold(wanted)
        ]
    if len(fitting) > 1:
        return None, Missing(logical, wanted, types, twins=tuple(str(entry.get("name")) for entry in fitting))
    if not fitting:
        return None, None if logical in OPTIONAL else Missing(logical, wanted, types)
    entry = fitting[0]
    kind = str(entry.get("type"))
    if kind not in types:
        return None, None if logical in OPTIONAL else Missing(logical, wanted, types, found_type=kind)
    config = entry.get(kind)
    rows = config.get("options") if isinstance(config, dict) else None
    options = tuple(Option(str(row["id"]), str(row["name"])) for row in rows or [] if "id" in row and "name" in row)
    return Column(logical, str(entry["id"]), str(entry.get("name")), kind, options), None


def _find_option(column: Column, name: str, before: Option | None) -> Option | None:
    if before is not None and (same := column.option_by_id(before.id)):
        return same
    exact = [option for option in column.options if option.name == name]
    loose = exact or [option for option in column.options if fold(option.name) == fold(name)]
    return loose[0] if loose else None


def _ordered(
    column: Column | None, settings: BoardSettings, known: Columns | None
) -> tuple[dict[str, str], list[Missing]]:
    if column is None or column.type == "number" or not isinstance(settings.priority_order, list):
        return {}, []
    ordered: dict[str, str] = {}
    missing = []
    for name in settings.priority_order:
        before = known.ordered.get(name) if known else None
        option = _find_option(column, name, Option(before, name) if before else None)
        if option is None:
            missing.append(Missing("priority", column.name, (column.type,), option=name))
        else:
            ordered[name] = option.id
    return ordered, missing


def _ranks(column: Column | None, ordered: Mapping[str, str]) -> dict[str, float]:
    ids = [*ordered.values(), *(option.id for option in column.options)] if column else []
    return {option_id: float(position) for position, option_id in enumerate(dict.fromkeys(ids))}
