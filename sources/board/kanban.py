"""The pages for people: all boards, one board, one card. What is changed here is changed by a person, not by a bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sources.board import comments, pages
from sources.board.board import Board
from sources.board.call import NEWEST, Call, Json
from sources.board.errors import NotionError
from sources.board.ids import PERSON_ID, read_id
from sources.board.kanban_view import (
    NO_VALUE,
    Roles,
    board_view,
    card_view,
    column_of,
    comment_views,
    content_lines,
    options_of,
)
from sources.board.markdown import split_units
from sources.board.page_markdown import page_markdown, rewrite
from sources.board.richtext import TEXT_UNITS, plain, title_of
from sources.board.store import Node

MAX_FORM_BYTES = 1024 * 1024
_Form: TypeAlias = dict[str, str]
_Act: TypeAlias = Callable[["Kanban", Node, Node | None, _Form], str]


class Missing(Exception):
    """No such board or card."""


class Kanban:
    def __init__(self, board: Board) -> None:
        self.board = board
        self._pages = Environment(
            loader=PackageLoader("sources.board"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )

    def routes(self) -> list[Route | Mount]:
        static = StaticFiles(directory=Path(__file__).parent / "static")
        card = "/boards/{board_id}/cards/{card_id}"
        return [
            Route("/", self._answer(self._index)),
            Route("/boards/{board_id}", self._answer(self._show)),
            Route("/boards/{board_id}/state", self._answer(self._state)),
            Route(card, self._answer(self._card)),
            Route(f"{card}/state", self._answer(self._card_state)),
            Route("/boards/{board_id}/cards", self._answer(self._act(_add)), methods=["POST"]),
            *(
                Route(f"{card}/{word}", self._answer(self._act(act)), methods=["POST"])
                for word, act in (
                    ("move", _move),
                    ("edit", _edit),
                    ("trash", _trash),
                    ("restore", _restore),
                    ("comments", _comment),
                )
            ),
            Mount("/static", static),
        ]

    def _answer(self, page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                return await page(request)
            except Missing as missing:
                return self._refused(request, 404, str(missing))
            except NotionError as error:
                return self._refused(request, error.status, error.message)

        return answered

    def _refused(self, request: Request, status: int, message: str) -> Response:
        if _wants_json(request):
            return JSONResponse({"error": message}, status)
        return self._page("problem.html", status=status, code=status, message=message)

    def _page(self, name: str, *, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(
            self._pages.get_template(name).render(workspace=self.board.workspace_name, **values), status
        )

    def find_board(self, request: Request) -> tuple[Node, Node]:
        """The database of the address and its first data source; the address may name either."""
        node = self.board.store.get(read_id(request.path_params["board_id"]))
        if node is not None and node.kind == "data_source":
            database = self.board.store.get(node.parent_id)
            if database is not None and not node.in_trash and not database.in_trash:
                return database, node
        if node is not None and node.kind == "database" and not node.in_trash:
            for source in self.board.store.children(node.id, "data_source"):
                if not source.in_trash:
                    return node, source
        raise Missing("There is no such board.")

    def _find_card(self, request: Request, source: Node) -> Node:
        node = self.board.store.get(read_id(request.path_params["card_id"]))
        if node is None or node.kind != "page" or node.parent_id != source.id:
            raise Missing("There is no such card on this board.")
        return node

    async def _index(self, request: Request) -> Response:
        found = []
        for database in self.board.store.of_kind("database"):
            sources = [s for s in self.board.store.children(database.id, "data_source") if not s.in_trash]
            if database.in_trash or not sources:
                continue
            view = board_view(self.board, database, sources[0], self.board.now())
            found.append(view)
        return self._page("index.html", boards=found)

    async def _show(self, request: Request) -> Response:
        database, source = self.find_board(request)
        view = board_view(self.board, database, source, self.board.now())
        return self._page("board.html", board=view, described=True)

    async def _state(self, request: Request) -> Response:
        """The whole board, or only its revision when the caller has seen it already."""
        database, source = self.find_board(request)
        if request.query_params.get("since") == str(self.board.store.revision):
            return JSONResponse({"revision": self.board.store.revision})
        return JSONResponse(board_view(self.board, database, source, self.board.now()).to_json())

    async def _card(self, request: Request) -> Response:
        database, source = self.find_board(request)
        page = self._find_card(request, source)
        schema = source.body["properties"]
        roles = Roles.of(schema)
        column_id = column_of(schema, roles, page)
        columns = options_of(schema, roles.status)
        call = self.call({})
        description = (
            plain(page.body["properties"].get(roles.description) or (), self.board)
            if roles.description
            else page_markdown(call, page)
        )
        return self._page(
            "card.html",
            board_id=database.id,
            board_title=title_of(database.body, self.board) or "New database",
            card=card_view(self.board, schema, roles, page, self.board.now()),
            trashed=page.in_trash,
            column=next((option for option in columns if option.id == column_id), None),
            columns=columns,
            priorities=options_of(schema, roles.priority),
            description=description,
            body_is_description=roles.description is None,
            lines=content_lines(self.board, page),
            comments=comment_views(self.board, page),
            created_at=page.created_at.isoformat(timespec="seconds"),
            edited_at=page.edited_at.isoformat(timespec="seconds"),
            revision=self._card_revision(page),
        )

    async def _card_state(self, request: Request) -> Response:
        _, source = self.find_board(request)
        return JSONResponse({"revision": self._card_revision(self._find_card(request, source))})

    def _card_revision(self, page: Node) -> str:
        """Another text whenever something on the card's page may look different."""
        comments = self.board.store.children(page.id, "comment")
        newest = max((comment.edited_at.isoformat() for comment in comments), default="")
        return f"{page.edited_at.isoformat()} {page.in_trash} {len(comments)} {newest}"

    def call(self, body: Json) -> Call:
        """A call of the person at the board."""
        return Call(
            board=self.board,
            user_id=PERSON_ID,
            version=NEWEST,
            params={},
            query={},
            body=body,
            now=self.board.now(),
        )

    def _act(self, act: _Act) -> Callable[[Request], Awaitable[Response]]:
        async def acted(request: Request) -> Response:
            database, source = self.find_board(request)
            page = self._find_card(request, source) if "card_id" in request.path_params else None
            form = await _read_form(request)
            with self.board.store.transaction():
                card_id = act(self, source, page, form)
            if _wants_json(request):
                return JSONResponse({"id": card_id, "revision": self.board.store.revision})
            back = f"/boards/{database.id}"
            return RedirectResponse(f"{back}/cards/{card_id}" if form.get("stay") else back, 303)

        return acted


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


async def _read_form(request: Request) -> _Form:
    data = await request.body()
    if data and not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise NotionError(415, "validation_error", "Send the fields of a form.")
    if len(data) > MAX_FORM_BYTES:
        raise NotionError(413, "validation_error", "That text is too long.")
    fields = parse_qs(data.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}


def _rich_text(text: str) -> list[Json]:
    return [{"text": {"content": part}} for part in split_units(text, TEXT_UNITS)]


def _fields(kanban: Kanban, source: Node, form: _Form) -> Json:
    """Title, priority and description of a form as property values."""
    schema = source.body["properties"]
    roles = Roles.of(schema)
    values: Json = {}
    if "title" in form:
        if not form["title"].strip():
            raise NotionError(400, "validation_error", "A card needs a title.")
        values["title"] = {"title": _rich_text(form["title"].strip())}
    if "priority" in form and roles.priority is not None and "options" in schema[roles.priority]:
        kind = schema[roles.priority]["type"]
        values[roles.priority] = {kind: {"id": form["priority"]} if form["priority"] else None}
    if "description" in form and roles.description is not None:
        values[roles.description] = {"rich_text": _rich_text(form["description"])}
    return values


def _add(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    roles = Roles.of(source.body["properties"])
    values = _fields(kanban, source, {"title": "", **form})
    column = form.get("column")
    if roles.status is not None:
        columns = options_of(source.body["properties"], roles.status)
        chosen = column if column in {option.id for option in columns} else columns[0].id if columns else None
        if chosen is not None:
            values[roles.status] = {source.body["properties"][roles.status]["type"]: {"id": chosen}}
    body: Json = {"parent": {"data_source_id": source.id}, "properties": values}
    if roles.description is None and form.get("description", "").strip():
        body["markdown"] = form["description"]
    return str(pages.create(kanban.call(body))["id"])


def _change(kanban: Kanban, page: Node | None, body: Json) -> str:
    assert page is not None  # noqa: S101 - the address names a card
    return pages.change(kanban.call(body), page).id


def _move(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    roles = Roles.of(source.body["properties"])
    if roles.status is None:
        raise NotionError(400, "validation_error", "This board has no status to move cards along.")
    prop = source.body["properties"][roles.status]
    target = form.get("column", "")
    chosen = next((option["id"] for option in prop["options"] if target in (option["id"], option["name"])), None)
    if chosen is None and target != NO_VALUE:
        raise NotionError(400, "validation_error", "There is no such column.")
    value = None if chosen is None else {"id": chosen}
    return _change(kanban, page, {"properties": {roles.status: {prop["type"]: value}}})


def _edit(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    card_id = _change(kanban, page, {"properties": _fields(kanban, source, form)})
    if "description" in form and Roles.of(source.body["properties"]).description is None:
        call = kanban.call({})
        current = call.find("page", card_id)
        if form["description"] != page_markdown(call, current):
            rewrite(call, current, form["description"])
    return card_id


def _trash(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    return _change(kanban, page, {"in_trash": True})


def _restore(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    return _change(kanban, page, {"in_trash": False})


def _comment(kanban: Kanban, source: Node, page: Node | None, form: _Form) -> str:
    assert page is not None  # noqa: S101 - the address names a card
    if not form.get("text", "").strip():
        raise NotionError(400, "validation_error", "A comment needs words.")
    body = {"parent": {"page_id": page.id}, "rich_text": _rich_text(form["text"])}
    comments.create(kanban.call(body))
    return page.id
