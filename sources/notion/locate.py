"""From what a person pasted to the one data source that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from hermes.errors import Gone, Misconfigured
from sources.notion.cards import in_trash
from sources.notion.client import NotionClient
from sources.notion.text import plain_text

Kind = Literal["data source", "database", "page around a database"]

_CONTAINERS = frozenset({"column_list", "column", "toggle", "synced_block", "callout", "tab", "quote"})
"""Blocks in which people keep an inline database."""
_DEEPEST = 3
_MOST_LISTINGS = 20


@dataclass(frozen=True, slots=True)
class Located:
    kind: Kind
    """What was pasted."""
    data_source_id: str
    data_source_name: str
    database_id: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    data_source_id: str
    name: str
    database_id: str
    url: str | None

    def __str__(self) -> str:
        return f"{self.name!r} ({self.data_source_id})"


def ids_in(text: str) -> list[str]:
    """The ids that a pasted text can mean, likeliest first. A view (`?v=`) or an opened card (`?p=`) is not meant."""
    text = text.strip().strip("<>\"'")
    if "/" not in text:
        return _last_id(text)
    parts = urlsplit(text if "://" in text else f"https://{text}")
    # A link to a block of a page (#...) points at the inline database itself.
    found = _last_id(parts.fragment)
    for segment in reversed(unquote(parts.path).split("/")):
        found.extend(_last_id(segment))
    return list(dict.fromkeys(found))


def _last_id(text: str) -> list[str]:
    """An id is the end of a slug, with dashes anywhere."""
    match = re.search(r"([0-9a-f]{32})$", text.replace("-", "").lower())
    if not match:
        return []
    digits = match.group(1)
    return [f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"]


def locate(client: NotionClient, pasted: str) -> Located:
    """One to three reads for what is usual. `Gone` with the cure where nothing is found, `Misconfigured` where several
    data sources could be meant."""
    ids = ids_in(pasted)
    if not ids:
        raise Misconfigured(
            f"board: {pasted!r} holds no id. Paste the database's link (••• > Copy link), its id, or a data source's id"
        )
    is_url = "/" in pasted
    for candidate in ids:
        steps = (_as_database, _as_data_source, _as_page) if is_url else (_as_data_source, _as_database, _as_page)
        for step in steps:
            located = step(client, candidate)
            if located is not None:
                return located
    raise Gone(
        f"board: nothing with the id {' or '.join(ids)} can be seen by the connection {_own_name(client)!r}. In "
        "Notion, open the board, then ••• > Connections > add it there; check that the id is the board's and that the "
        "token is of the same workspace; a linked view has no data of its own: use the link of the original database"
    )


def _own_name(client: NotionClient) -> str:
    return str(client.whoami().get("name") or client.name)


def _get(client: NotionClient, path: str) -> dict[str, Any] | None:
    try:
        return client.read("GET", path)
    except Gone:
        return None


def _as_data_source(client: NotionClient, given: str) -> Located | None:
    source = _get(client, f"data_sources/{given}")
    if source is None:
        return None
    _refuse_trashed(source, "data source")
    parent = source.get("parent")
    database_id = parent.get("database_id") if isinstance(parent, dict) else None
    return Located("data source", str(source["id"]), _title(source), database_id, source.get("url"))


def _as_database(client: NotionClient, given: str) -> Located | None:
    database = _get(client, f"databases/{given}")
    if database is None:
        return None
    _refuse_trashed(database, "database")
    return _only("database", _sources_of(database), f"The database {_title(database)!r}")


def _as_page(client: NotionClient, given: str) -> Located | None:
    page = _get(client, f"pages/{given}")
    if page is None:
        return None
    parent = page.get("parent")
    if isinstance(parent, dict) and parent.get("type") == "data_source_id":
        raise Misconfigured(
            f"board: {given} is a card, not a board. The board it lies on has the data source id "
            f"{parent.get('data_source_id')}"
        )
    _refuse_trashed(page, "page")
    candidates: list[_Candidate] = []
    for block_id in _inline_databases(client, given):
        database = _get(client, f"databases/{block_id}")
        if database is not None and not in_trash(database):
            candidates.extend(_sources_of(database))
    return _only("page around a database", candidates, f"The page {given}")


def _only(kind: Kind, candidates: list[_Candidate], holder: str) -> Located:
    if len(candidates) == 1:
        one = candidates[0]
        return Located(kind, one.data_source_id, one.name, one.database_id, one.url)
    if candidates:
        raise Misconfigured(
            f"board: {holder} holds several data sources: {', '.join(map(str, candidates))}. "
            "Put the id of the one that is meant"
        )
    if kind == "database":
        raise Misconfigured(
            f"board: {holder} shows no data source to this connection: it is a linked view, or its data is not "
            "shared. Use the link of the original database"
        )
    raise Misconfigured(f"board: {holder} is a page and no database that this connection can see lies on it")


def _sources_of(database: dict[str, Any]) -> list[_Candidate]:
    rows = database.get("data_sources")
    return [
        _Candidate(str(row["id"]), str(row.get("name") or ""), str(database["id"]), database.get("url"))
        for row in (rows if isinstance(rows, list) else [])
    ]


def _inline_databases(client: NotionClient, page_id: str) -> Iterator[str]:
    waiting = [(page_id, 0)]
    listings = 0
    while waiting and listings < _MOST_LISTINGS:
        holder, depth = waiting.pop(0)
        for answer in client.pages("GET", f"blocks/{holder}/children", {"page_size": 100}):
            listings += 1
            for block in answer.get("results", []):
                if block.get("type") == "child_database":
                    yield str(block["id"])
                elif block.get("has_children") and block.get("type") in _CONTAINERS and depth < _DEEPEST:
                    waiting.append((str(block["id"]), depth + 1))
            if listings >= _MOST_LISTINGS:
                return


def _refuse_trashed(thing: dict[str, Any], what: str) -> None:
    if in_trash(thing):
        raise Gone(f"board: the {what} is in the trash: restore it in Notion, or name another board")


def _title(thing: dict[str, Any]) -> str:
    return plain_text(thing.get("title")) or "untitled"
