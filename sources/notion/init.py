"""What a board lacks, as data to be shown first and added then; and a whole new board.

Adding twice adds nothing: what is there is found by name, and only what was shown is ever added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes.errors import Fatal, Gone, Misconfigured, UnknownOutcome
from sources.notion.client import NotionClient
from sources.notion.columns import Column, Columns, Missing, fold, read_columns, wanted_columns
from sources.notion.config import BoardSettings
from sources.notion.locate import Located, ids_in, locate
from sources.notion.text import plain_text, rich_text

PRIORITIES = ("Urgent", "High", "Medium", "Low")
"""Of a priority column that is made where the settings name no order."""
TYPE_TO_MAKE: Mapping[str, str] = {
    "status": "select",  # a status column cannot be given its groups through the API
    "priority": "select",
    "claimed_by": "rich_text",
    "run_id": "rich_text",
    "claimed_at": "date",
    "claim_expires_at": "date",
    "completed_at": "date",
    "retry_count": "number",
    "last_error": "rich_text",
    "description": "rich_text",
}


@dataclass(frozen=True, slots=True)
class AddColumn:
    name: str
    type: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = "text" if self.type == "rich_text" else self.type
        return f"column {self.name!r} ({kind}{': ' + ', '.join(self.options) if self.options else ''})"


@dataclass(frozen=True, slots=True)
class AddOption:
    column: str
    type: str
    name: str

    def __str__(self) -> str:
        return f"option {self.name!r} in column {self.column!r}"


Addition = AddColumn | AddOption


@dataclass(frozen=True, slots=True)
class BoardPlan:
    located: Located
    additions: tuple[Addition, ...]
    by_hand: tuple[str, ...]
    """What only a person can put right, in words."""

    @property
    def complete(self) -> bool:
        return not self.additions and not self.by_hand

    def render(self) -> str:
        name = f"{self.located.data_source_name!r}"
        if self.complete:
            return f"The board {name} has everything."
        lines = [f"The board {name} (data source {self.located.data_source_id}):"]
        lines.extend(f"  + {addition}" for addition in self.additions)
        lines.extend(f"  ! {words}" for words in self.by_hand)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Applied:
    done: tuple[Addition, ...]
    left: BoardPlan
    """What is still lacking, read afterwards."""


@dataclass(frozen=True, slots=True)
class NewBoard:
    located: Located
    created: bool
    """False: a board of that title stood there already, and was left as it is."""


def plan_board(client: NotionClient, settings: BoardSettings, *, located: Located | None = None) -> BoardPlan:
    """Reads only."""
    found = located or locate(client, settings.board)
    columns = _columns(client, found, settings)
    additions: list[Addition] = []
    by_hand: list[str] = []
    for missing in columns.missing:
        if missing.twins or missing.found_type:
            by_hand.append(_cure(missing))
        elif missing.option is not None:
            additions.append(AddOption(missing.column, missing.types[0], missing.option))
        else:
            additions.append(_new_column(missing.logical, missing.column, settings))
    return BoardPlan(found, tuple(additions), tuple(by_hand))


def apply_plan(client: NotionClient, settings: BoardSettings, plan: BoardPlan) -> Applied:
    """Adds what the plan shows and is still lacking. Options that Notion refuses are left, with what to do by hand."""
    fresh = plan_board(client, settings, located=plan.located)
    todo = [addition for addition in fresh.additions if addition in plan.additions]
    columns = _columns(client, plan.located, settings)
    done: list[Addition] = []
    refused: list[str] = []
    # Options of a status column go alone: not every version of the API takes them.
    plain = [addition for addition in todo if not _is_status_option(addition)]
    for portion in (plain, [addition for addition in todo if _is_status_option(addition)]):
        if not portion:
            continue
        body = {"properties": _properties(portion, columns)}
        try:
            client.write("PATCH", f"data_sources/{plan.located.data_source_id}", body)
            done.extend(portion)
        except Fatal as exc:
            if portion is plain or type(exc) is not Fatal:
                raise
            refused.extend(f"{addition}: {_BY_HAND} ({exc})" for addition in portion)
    left = plan_board(client, settings, located=plan.located)
    remaining = tuple(addition for addition in left.additions if not refused or not _is_status_option(addition))
    return Applied(tuple(done), BoardPlan(plan.located, remaining, (*left.by_hand, *refused)))


def create_board(
    client: NotionClient, settings: BoardSettings, *, title: str, parent_page: str | None = None
) -> NewBoard:
    """A new database with every column, under a page (id or link); without one at the workspace's root, which the local
    board allows. A board of the same title there is taken instead."""
    if parent_page is not None:
        parent_page = _page_id(parent_page)
    existing = _titled(client, title, parent_page)
    if existing is not None:
        return NewBoard(existing, created=False)
    wanted = wanted_columns(settings)
    columns = [_new_column(logical, name, settings) for logical, name in wanted.items() if logical != "title"]
    parent: dict[str, Any] = {"type": "workspace", "workspace": True}
    if parent_page:
        parent = {"type": "page_id", "page_id": parent_page}
    body = {
        "parent": parent,
        "title": rich_text(title),
        "initial_data_source": {
            "properties": {"Name": {"title": {}}, **{column.name: _schema_of(column) for column in columns}}
        },
    }
    try:
        database = client.write("POST", "databases", body)
    except UnknownOutcome as exc:
        raise UnknownOutcome(f"{exc}. Run it again: it takes the board of that title if it was made") from exc
    source = database["data_sources"][0]
    return NewBoard(
        Located("database", str(source["id"]), title, str(database["id"]), database.get("url")), created=True
    )


_BY_HAND = (
    "Notion does not let the API add it: open the board, click the column's heading > Edit property, press + in the "
    "group it belongs to, and type the name"
)


def _columns(client: NotionClient, located: Located, settings: BoardSettings) -> Columns:
    return read_columns(client.read("GET", f"data_sources/{located.data_source_id}"), settings)


def _new_column(logical: str, name: str, settings: BoardSettings) -> AddColumn:
    options: tuple[str, ...] = ()
    kind = TYPE_TO_MAKE[logical]
    if logical == "status":
        options = tuple(settings.statuses.by_role().values())
    elif logical == "priority" and isinstance(settings.priority_order, str):
        kind = "number"
    elif logical == "priority":
        options = tuple(settings.priority_order or PRIORITIES)
    return AddColumn(name, kind, options)


def _schema_of(column: AddColumn) -> dict[str, Any]:
    # Never a colour: it cannot be changed later, and people choose their own.
    return {column.type: {"options": [{"name": name} for name in column.options]} if column.options else {}}


def _is_status_option(addition: Addition) -> bool:
    return isinstance(addition, AddOption) and addition.type == "status"


def _properties(additions: Iterable[Addition], columns: Columns) -> dict[str, Any]:
    """One PATCH. Options of a column go together with those it has: those left out would be removed."""
    properties: dict[str, Any] = {}
    for addition in additions:
        if isinstance(addition, AddColumn):
            properties[addition.name] = _schema_of(addition)
            continue
        column = _column_called(columns, addition.column)
        kept = [{"id": option.id, "name": option.name} for option in column.options]
        entry = properties.setdefault(column.id, {column.type: {"options": kept}})
        entry[column.type]["options"].append({"name": addition.name})
    return properties


def _column_called(columns: Columns, name: str) -> Column:
    return next(column for column in columns.by_logical.values() if column.name == name)


def _page_id(pasted: str) -> str:
    ids = ids_in(pasted)
    if not ids:
        raise Misconfigured(f"{pasted!r} holds no id of a page: paste the page's link (••• > Copy link) or its id")
    return ids[0]


def _cure(missing: Missing) -> str:
    if missing.twins:
        return f"{missing}: rename one of them, or write the name exactly under `columns:`"
    return f"{missing}: change its type in Notion, or name another column under `columns: {missing.logical}:`"


def _titled(client: NotionClient, title: str, parent_page: str | None) -> Located | None:
    if parent_page is None:
        body = {"query": title, "filter": {"property": "object", "value": "data_source"}, "page_size": 100}
        for answer in client.pages("POST", "search", body, limit=5):
            for source in answer.get("results", []):
                home = source.get("database_parent") or {}
                if home.get("type") == "workspace" and fold(plain_text(source.get("title"))) == fold(title):
                    return locate(client, str(source["id"]))
        return None
    for answer in client.pages("GET", f"blocks/{parent_page}/children", {"page_size": 100}):
        for block in answer.get("results", []):
            if block.get("type") == "child_database" and fold(block["child_database"].get("title", "")) == fold(title):
                try:
                    return locate(client, str(block["id"]))
                except (Gone, Misconfigured):
                    continue  # a linked view, or one that is not shared
    return None
