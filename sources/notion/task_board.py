"""A Notion data source behind the `TaskBoard` port: reads and writes for the claim protocol, which alone decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from hermes.clock import Clock, SystemClock
from hermes.errors import Fatal, Gone, Retryable, Skippable, UnknownOutcome
from hermes.model.card import Card, CardStatus, CardValues, ProtocolTimes
from hermes.ports.breaker import Breaker
from hermes.ports.limiter import Limiter
from sources.notion.answers import Committed, CursorExpired, EndpointGone, PartlyWritten, SchemaRejected
from sources.notion.cards import in_trash, shows, to_card, to_properties
from sources.notion.client import NotionClient
from sources.notion.columns import Column, Columns, read_columns
from sources.notion.config import BoardSettings, NotionConnection
from sources.notion.locate import Located, locate
from sources.notion.sections import calls, label, landed, section
from sources.notion.text import clean, cut, plain_text, rich_text, storable

SCHEMA_AGE = timedelta(minutes=5)
"""A renamed option makes the filter miss its cards without an error: no query trusts a schema for longer. Reading and
writing cards goes by ids and needs no fresh one."""
LACKING_AGE = timedelta(seconds=10)
"""What was missing may be there again: a poll that fails at it must see the cure at its next try."""
COMMENT_UNITS = 10_000
COMMENT_NOTE = " … (cut here: `hermes-poll runs show` has all of it)"
OPEN = (CardStatus.todo, CardStatus.in_progress)


@dataclass(frozen=True, slots=True)
class BoardDescription:
    """For `doctor`: what was found, and what is wrong."""

    name: str
    connection_name: str
    url: str
    version: str
    mode: str
    user: str
    located: Located
    columns: tuple[Column, ...]
    statuses: Mapping[CardStatus, str]
    problems: tuple[str, ...]


def open_board(
    name: str,
    settings: BoardSettings,
    connection: NotionConnection,
    limiter: Limiter,
    *,
    clock: Clock | None = None,
    times: ProtocolTimes | None = None,
    breaker: Breaker | None = None,
) -> NotionTaskBoard:
    """No request is made before the board is first used, so it opens while Notion is away. Boards of one connection
    share limiter and breaker."""
    client = NotionClient(connection, limiter, name=settings.connection, clock=clock, breaker=breaker)
    return NotionTaskBoard(name, settings, client, clock=clock, times=times)


class NotionTaskBoard:
    """Implements `hermes.ports.board.TaskBoard`. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        settings: BoardSettings,
        client: NotionClient,
        *,
        clock: Clock | None = None,
        times: ProtocolTimes | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.client = client
        self.connection_name = settings.connection
        self.times = times or client.connection.protocol_times
        self.skipped: Sequence[Skippable] = ()
        """Pages of the last `open_cards` that could not be read."""
        self.incomplete: str | None = None
        """Why the last `open_cards` did not see everything."""
        self._clock = clock or SystemClock()
        self._reading = threading.Lock()
        self._columns: Columns | None = None
        self._columns_at: float | None = None

    @cached_property
    def located(self) -> Located:
        return locate(self.client, self.settings.board)

    if TYPE_CHECKING:
        key: str  # the port has a plain attribute
    else:

        @cached_property
        def key(self) -> str:
            """The data source id. Asks Notion the first time, so it raises what `locate` raises."""
            return self.located.data_source_id

    def open_cards(self) -> list[Card]:
        columns = self._schema(oldest=SCHEMA_AGE)
        columns.require_all()
        try:
            pages = self._query(columns)
        except SchemaRejected:
            columns = self._schema(afresh=True)
            columns.require_all()
            pages = self._query(columns)
        except CursorExpired:
            pages = self._query(columns)
        if any(self._outgrown(page, columns) for page in pages):
            columns = self._schema(afresh=True)
            columns.require_all()

        cards: dict[str, Card] = {}
        skipped: list[Skippable] = []
        for page in pages:
            try:
                card = to_card(page, columns)
            except Skippable as exc:
                skipped.append(exc)
                continue
            # The filter is a wish: it has been dropped silently, and the index lags.
            if card.status in OPEN and not card.in_trash:
                cards[card.id] = card
        self.skipped = tuple(skipped)
        # Within a minute, which is all that created_time tells, the server's own order stands.
        return sorted(cards.values(), key=lambda card: (card.priority_rank, card.created_at))

    def read(self, card_id: str) -> Card:
        return self._card(self.client.read("GET", f"pages/{card_id}"))

    def read_body(self, card_id: str) -> str:
        answer = self.client.read("GET", f"pages/{card_id}/markdown")
        body = answer.get("markdown")
        if not isinstance(body, str):
            raise Retryable("Notion answered without the page's text")
        body = storable(body)
        return f"{body}\n\n(The page goes on: Notion cut it here.)" if answer.get("truncated") else body

    def write(self, card_id: str, values: CardValues, *, send_by: float | None = None) -> Card:
        """A claim needs every column. Any other write leaves out columns that are gone, so running cards still finish;
        where Notion refuses one for such a column, which surely wrote nothing, it is sent anew without it."""
        claims = values.get("status") is CardStatus.in_progress
        columns = self._schema()
        if claims:
            columns.require_all()
        try:
            wanted = values if claims else _present(values, columns)
            return self._patch(card_id, wanted, columns, urgent=not claims, send_by=send_by)
        except SchemaRejected as exc:
            fresh = self._schema(afresh=True)
            if claims:
                fresh.require_all()
                raise Retryable(f"{exc}; the columns were read again and are all there") from exc
            return self._patch(card_id, _present(values, fresh), fresh, urgent=True, send_by=send_by)

    def write_result(
        self, card_id: str, marker: str, markdown: str, *, again: bool, send_by: float | None = None
    ) -> None:
        portions = list(calls(section(marker, markdown)))
        done, after = landed(portions, self._children(card_id)) if again else (0, None)
        for number, portion in enumerate(portions[done:], start=done):
            body: dict[str, Any] = {"children": portion}
            if after is not None:
                body |= self._position(after)
            try:
                answer = self.client.write("PATCH", f"blocks/{card_id}/children", body, urgent=True, send_by=send_by)
            except EndpointGone as exc:
                raise _text_refused(exc) from exc
            except Retryable as exc:
                if number == done:
                    raise
                # Part of the section is there: to the caller that is neither applied nor surely not applied.
                raise UnknownOutcome(f"{number} of {len(portions)} parts of the result are in the page: {exc}") from exc
            after = _last_id(answer, portion)

    def comment(self, card_id: str, marker: str, text: str, *, again: bool, send_by: float | None = None) -> None:
        """Looks only at open discussions with `again`: Notion does not list resolved ones."""
        tail = f"\n{label(marker)}"
        if again and any(label(marker) in said for said in self._comments(card_id)):
            return
        said = cut(clean(text), COMMENT_UNITS, note=COMMENT_NOTE) + tail
        body = {"parent": {"page_id": card_id}, "rich_text": rich_text(said)}
        try:
            self.client.write("POST", "comments", body, urgent=True, send_by=send_by)
        except Committed:
            return
        except EndpointGone as exc:
            raise _text_refused(exc) from exc

    def whoami(self) -> str:
        """Id of our bot user: who `Card.edited_by` is after a write of ours."""
        return str(self._user["id"])

    def describe(self) -> BoardDescription:
        """Two to five reads."""
        columns = self._schema(afresh=True)
        return BoardDescription(
            name=self.name,
            connection_name=self.connection_name,
            url=self.client.connection.url,
            version=self.client.connection.version,
            mode=self.settings.mode,
            user=str(self._user.get("name") or self._user["id"]),
            located=self.located,
            columns=tuple(columns.by_logical.values()),
            statuses={role: option.name for role, option in columns.roles.items()},
            problems=tuple(map(str, columns.missing)),
        )

    @property
    def skew(self) -> timedelta | None:
        return self.client.skew

    def close(self) -> None:
        self.client.close()

    @cached_property
    def _user(self) -> dict[str, Any]:
        return self.client.whoami()

    def _schema(self, *, oldest: timedelta | None = None, afresh: bool = False) -> Columns:
        with self._reading:
            now = self._clock.boot_seconds()
            read_at = self._columns_at
            if self._columns is not None and self._columns.missing:
                oldest = LACKING_AGE
            old = read_at is None or (oldest is not None and now - read_at >= oldest.total_seconds())
            if self._columns is None or old or afresh:
                source = self.client.read("GET", f"data_sources/{self.key}")
                if in_trash(source):
                    raise Gone(f"The board {self.name!r} is in the trash: restore it in Notion")
                self._columns = read_columns(source, self.settings, self._columns)
                self._columns_at = now
            return self._columns

    def _query(self, columns: Columns) -> list[dict[str, Any]]:
        status, priority = columns.require("status"), columns.get("priority")
        wanted = [{"property": status.id, status.type: {"equals": columns.option_for(role).name}} for role in OPEN]
        sorts: list[dict[str, str]] = [{"timestamp": "created_time", "direction": "ascending"}]
        if priority:
            direction = "descending" if columns.descending else "ascending"
            sorts.insert(0, {"property": priority.id, "direction": direction})
        body = {"filter": {"or": wanted}, "sorts": sorts, "page_size": 100}
        self.incomplete = None
        pages: list[dict[str, Any]] = []
        for answer in self.client.pages("POST", f"data_sources/{self.key}/query", body):
            pages.extend(page for page in answer.get("results", []) if page.get("object") == "page")
            state = answer.get("request_status")
            if isinstance(state, dict) and state.get("incomplete_reason"):
                self.incomplete = str(state["incomplete_reason"])
        return pages

    def _outgrown(self, page: Mapping[str, Any], columns: Columns) -> bool:
        """A column of ours is gone from the page, or is of another type, since the schema was read."""
        entries = page.get("properties")
        if not isinstance(entries, dict):
            return False
        types = {entry.get("id"): entry.get("type") for entry in entries.values() if isinstance(entry, dict)}
        return any(types.get(column.id) != column.type for column in columns.by_logical.values())

    def _card(self, page: Mapping[str, Any]) -> Card:
        parent = page.get("parent")
        home = parent.get("data_source_id") if isinstance(parent, dict) else None
        if home != self.key:
            raise Gone(f"The page {page.get('id')} was moved away from the board {self.name!r}")
        return to_card(page, self._schema())

    def _patch(
        self, card_id: str, values: CardValues, columns: Columns, *, urgent: bool, send_by: float | None
    ) -> Card:
        sent = to_properties(values, columns)
        if not sent:  # every column of the write is gone
            return self._card(self.client.read("GET", f"pages/{card_id}", urgent=urgent))
        try:
            body = {"properties": sent}
            page = self.client.write("PATCH", f"pages/{card_id}", body, urgent=urgent, send_by=send_by)
        except Committed:
            page = self.client.read("GET", f"pages/{card_id}", urgent=urgent)
        self._check_echo(page, values, sent, columns)
        try:
            return self._card(page)
        except Skippable as exc:
            raise UnknownOutcome(f"Notion answered 200 with a page that cannot be read: {exc}") from exc

    def _check_echo(
        self, page: Mapping[str, Any], values: CardValues, sent: Mapping[str, Any], columns: Columns
    ) -> None:
        """Notion has answered 200 and written nothing for a column it did not know."""
        entries = page.get("properties")
        if not isinstance(entries, dict):
            raise UnknownOutcome("Notion answered 200 without the page's columns")
        by_id = {e.get("id"): e for e in entries.values() if isinstance(e, dict)}
        for logical in values:
            column = columns.require(logical)
            entry = by_id.get(column.id)
            if entry is None:
                self._columns_at = None
                raise PartlyWritten(
                    f"Notion answered 200 and did not write the column {column.name!r}: it is not on the board any more"
                )
            if not shows(entry, column, sent[column.id]):
                raise UnknownOutcome(f"Notion answered 200 and shows another {column.name!r} than was written")

    def _children(self, page_id: str) -> Iterator[dict[str, Any]]:
        for answer in self.client.pages("GET", f"blocks/{page_id}/children", {"page_size": 100}):
            yield from answer.get("results", [])

    def _comments(self, page_id: str) -> Iterator[str]:
        for answer in self.client.pages("GET", "comments", {"block_id": page_id, "page_size": 100}):
            for comment in answer.get("results", []):
                yield plain_text(comment.get("rich_text"))

    def _position(self, block_id: str) -> dict[str, Any]:
        if self.client.connection.version < "2026-03-11":
            return {"after": block_id}
        return {"position": {"type": "after_block", "after_block": {"id": block_id}}}


def _text_refused(exc: EndpointGone) -> Fatal:
    """Texts cannot be put on pages any more. It is told as the refusal of one: an ending is shown without its text."""
    return Fatal(str(exc))


def _present(values: CardValues, columns: Columns) -> CardValues:
    """Without the columns that are gone; a status is never left out."""
    kept = {logical: value for logical, value in values.items() if logical == "status" or columns.get(logical)}
    return cast(CardValues, kept)


def _last_id(answer: Mapping[str, Any], portion: list[dict[str, Any]]) -> str | None:
    """Of the last block we appended. Where something follows the section, an answer lists that too."""
    results = answer.get("results")
    if not isinstance(results, list) or len(results) < len(portion):
        return None
    return str(results[len(portion) - 1].get("id") or "") or None
