"""From an HTTP request to an answer: route, token, version, body, faults, handler, commit. The one seam where a call
can be disturbed: `_meet` runs before handling, `_handle` commits, `_after` runs between the commit and the answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime
from functools import partial
from urllib.parse import unquote
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sources.board.board import Board
from sources.board.body import read_body
from sources.board.call import VERSIONS, Accepted, Bare, Call, Json
from sources.board.disturbances import Disturbances, Ghost
from sources.board.errors import NotionError, invalid_url, missing_version, unauthorized, unknown_version
from sources.board.faults import Fault
from sources.board.ids import read_id
from sources.board.ledger import Entry, Ledger
from sources.board.named_faults import html_page
from sources.board.routes import Route, match
from sources.board.webhooks import Webhooks

log = logging.getLogger(__name__)

UPDATE = "PATCH /v1/pages/{page_id}"


class Dropped(Exception):
    """The connection is to be cut instead of answered."""


class Dispatcher:
    def __init__(self, board: Board) -> None:
        self.board = board
        self.ledger = Ledger()
        self.disturbances = Disturbances(board, self.ledger)
        self.webhooks = Webhooks(board, self.disturbances.webhook_fault)

    async def __call__(self, request: Request) -> Response:
        request_id = str(uuid4())
        entry: Entry | None = None
        try:
            route, params, user_id, version = self._recognise(request)
            body, files = await read_body(request)
            self.disturbances.land()
            objects = _objects(params, body)
            wrote = body.get("properties") if route.label == UPDATE else None
            entry = self.ledger.count(route.label, user_id, objects, self.board.now(), writes=route.writes, wrote=wrote)
            call = Call(
                board=self.board,
                user_id=user_id,
                version=version,
                params=params,
                query=_query_of(request),
                body=body,
                now=self.board.now(),
                base_url=str(request.base_url).rstrip("/"),
                files=files,
            )
            self.disturbances.limit(call, entry)
            fault = self.disturbances.take(call, entry, writes=route.writes)
            response = await self._meet(fault, route, call, entry, request_id) if fault else None
            if response is None:
                response = self._after(fault, self._answer(route, call, entry, request_id), entry, request_id)
        except NotionError as error:
            response = self._refusal(error, request_id)
        except Dropped:
            if entry is not None:
                self.ledger.answered(entry, None)
            raise
        except Exception:  # the boundary of a call: a client must be answered, and the board must go on
            log.exception("board: call failed")
            response = self._refusal(
                NotionError(500, "internal_server_error", "Unexpected error occurred."), request_id
            )
        if entry is not None:
            self.ledger.answered(entry, response.status_code)
        return response

    def _recognise(self, request: Request) -> tuple[Route, Mapping[str, str], str, str]:
        raw = request.scope.get("raw_path") or request.url.path.encode()
        parts = [unquote(part) for part in raw.decode("latin-1").split("?")[0].strip("/").split("/")]
        found = match(request.method, parts)
        if found is None:
            raise invalid_url()
        route, params = found
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user_id = self.board.bot_for(token.strip()) if scheme.lower() == "bearer" else None
        if user_id is None:
            raise unauthorized()
        version = request.headers.get("notion-version")
        if version is None:
            raise missing_version()
        if version not in VERSIONS:
            raise unknown_version(version, VERSIONS)
        if version not in route.versions:
            raise invalid_url()
        return route, params, user_id, version

    def _answer(self, route: Route, call: Call, entry: Entry, request_id: str) -> Response:
        """What the board itself says, be it a refusal: that too can be lost on its way."""
        try:
            return self._success(self._handle(route, call, entry), request_id)
        except NotionError as error:
            return self._refusal(error, request_id)

    def _handle(self, route: Route, call: Call, entry: Entry) -> Json:
        try:
            with self.board.store.transaction():
                answer = route.handler(call)
        except NotionError:
            entry.outcome = entry.outcome and "refused"
            raise
        self.ledger.applied(entry, call.now)
        return answer

    async def _meet(self, fault: Fault, route: Route, call: Call, entry: Entry, request_id: str) -> Response | None:
        """Before handling; an answer is instead of it."""
        match fault.kind:
            case "answer":
                return self._disturbed(fault, request_id)
            case "drop_before":
                raise Dropped
            case "hang":
                await asyncio.sleep(fault.seconds)
                call.now = self.board.now()
            case "ghost":
                ghost = Ghost(call.now + timedelta(seconds=fault.seconds), call, entry, partial(self._handle, route))
                self.disturbances.haunt(ghost)
                # It is due by the board's clock, and whoever looks makes it land; this is for nobody looking.
                asyncio.get_running_loop().call_later(fault.seconds, self.disturbances.land)
                if fault.status is None:
                    raise Dropped
                return self._disturbed(fault, request_id)
            case "query":
                self.disturbances.shade(fault, call)
            case "lenient":
                call.lenient = True
            case "edit" if fault.when == "before":
                self.disturbances.edit(fault, entry)
        return None

    def _after(self, fault: Fault | None, response: Response, entry: Entry, request_id: str) -> Response:
        """Between the commit and the answer."""
        if fault is None:
            return response
        match fault.kind:
            case "drop":
                raise Dropped
            case "answer_after":
                return self._disturbed(fault, request_id)
            case "garbled":
                return _garbled(fault.garble, response)
            case "trickle":
                return Trickle(response, fault.seconds)
            case "edit" if fault.when == "after":
                self.disturbances.edit(fault, entry)
        return response

    def _disturbed(self, fault: Fault, request_id: str) -> Response:
        status = fault.status or 500
        if fault.html is not None:
            return Response(
                fault.html,
                status,
                self._headers(request_id) | fault.headers,
                media_type="text/html; charset=utf-8",
            )
        error = NotionError(
            status, fault.code, fault.message, additional_data=fault.additional_data, headers=fault.headers
        )
        return self._refusal(error, request_id)

    def _success(self, answer: Json, request_id: str) -> Response:
        status = 202 if isinstance(answer, Accepted) else 200
        shown = answer if isinstance(answer, Bare) else {**answer, "request_id": request_id}
        return _json(shown, status, self._headers(request_id))

    def _refusal(self, error: NotionError, request_id: str) -> Response:
        return _json(error.envelope(request_id), error.status, self._headers(request_id) | error.headers)

    def _headers(self, request_id: str) -> dict[str, str]:
        return {"x-notion-request-id": request_id, "date": format_datetime(self.board.now(), usegmt=True)}


def _json(content: Json, status: int, headers: dict[str, str]) -> Response:
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(data, status, headers, media_type="application/json; charset=utf-8")


def _garbled(garble: str, response: Response) -> Response:
    body, media_type = bytes(response.body), "application/json; charset=utf-8"
    if garble == "truncated":
        body = body[: len(body) // 2]
    elif garble == "other":
        body = b'{"status":"ok","result":[]}'
    else:
        body, media_type = html_page(200, "Sign in to the network").encode(), "text/html; charset=utf-8"
    return Response(body, 200, media_type=media_type)


class Trickle(Response):
    """An answer that comes a byte at a time."""

    def __init__(self, answer: Response, seconds: float) -> None:
        super().__init__(answer.body, answer.status_code, dict(answer.headers))
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for byte in bytes(self.body):
            if scope["state"]["board.transport"].is_closing():
                return  # the client has had enough
            await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
            await asyncio.sleep(self._seconds)
        await send({"type": "http.response.body", "body": b""})


def _query_of(request: Request) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for key, value in request.query_params.multi_items():
        values.setdefault(key, []).append(value)
    return values


def _objects(params: Mapping[str, str], body: Json) -> list[str]:
    """The objects a call is about: those in its path, and the parent in its body."""
    found = [read_id(value) or value for name, value in params.items() if name != "property_id"]
    parent = body.get("parent")
    if isinstance(parent, dict):
        found.extend(i for value in parent.values() if (i := read_id(value)) is not None)
    return list(dict.fromkeys(found))
