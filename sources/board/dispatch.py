"""From an HTTP request to an answer: route, token, version, body, faults, handler, commit. The one seam where a call
can be disturbed: `_meet` runs before handling, `_handle` commits, `_after` runs between the commit and the answer."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sources.board.board import Board
from sources.board.call import VERSIONS, Accepted, Bare, Call, Json
from sources.board.errors import (
    NotionError,
    invalid,
    invalid_json,
    invalid_url,
    missing_version,
    unauthorized,
    unknown_version,
)
from sources.board.faults import Fault, Faults
from sources.board.ids import read_id
from sources.board.ledger import Ledger
from sources.board.routes import Route, match

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 500 * 1024
EXACT_DIGITS = 15
UPDATE = "PATCH /v1/pages/{page_id}"


class Dropped(Exception):
    """The connection is to be cut instead of answered."""


class Dispatcher:
    def __init__(self, board: Board) -> None:
        self.board = board
        self.ledger = Ledger()
        self.faults = Faults(board.store)

    async def __call__(self, request: Request) -> Response:
        request_id = str(uuid4())
        entry: dict[str, Any] | None = None
        try:
            route, params, user_id, version = self._recognise(request)
            body, files = await _read_body(request)
            objects = _objects(params, body)
            wrote = body.get("properties") if route.label == UPDATE else None
            entry = self.ledger.count(route.label, user_id, objects, self.board.now().timestamp(), wrote)
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
            fault = self.faults.take(route.label, objects)
            if fault is not None:
                refusal = await self._meet(fault, call)
                if refusal is not None:
                    self.ledger.answered(entry, refusal.status_code)
                    return refusal
            answer = self._handle(route, call)
            if fault is not None:
                disturbed = self._after(fault, request_id)
                if disturbed is not None:
                    self.ledger.answered(entry, disturbed.status_code)
                    return disturbed
            response = self._success(answer, request_id)
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

    def _handle(self, route: Route, call: Call) -> Json:
        with self.board.store.transaction():
            return route.handler(call)

    async def _meet(self, fault: Fault, call: Call) -> Response | None:
        """Before handling."""
        if fault.kind == "answer":
            return self._disturbed(fault, str(uuid4()))
        if fault.kind == "hang":
            await asyncio.sleep(fault.seconds)
            call.now = self.board.now()
        if fault.kind == "query":
            call.hidden, call.stale, call.ignores_filter = frozenset(fault.hides), fault.before, fault.ignore_filter
        return None

    def _after(self, fault: Fault, request_id: str) -> Response | None:
        """Between the commit and the answer."""
        if fault.kind == "drop":
            raise Dropped
        if fault.kind == "answer_after":
            return self._disturbed(fault, request_id)
        return None

    def _disturbed(self, fault: Fault, request_id: str) -> Response:
        if fault.html is not None:
            return Response(
                fault.html,
                fault.status,
                self._headers(request_id) | fault.headers,
                media_type="text/html; charset=utf-8",
            )
        error = NotionError(
            fault.status, fault.code, fault.message, additional_data=fault.additional_data, headers=fault.headers
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


async def _read_body(request: Request) -> tuple[Json, Json]:
    """The JSON body, and the parts of a form."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await _read_form(request)
    try:
        data = await request.body()
    except ClientDisconnect as exc:
        raise invalid_json() from exc
    if len(data) > MAX_BODY_BYTES:
        raise invalid(f"Request body is too large: the limit is {MAX_BODY_BYTES} bytes.")
    if not data:
        return {}, {}
    try:
        body = json.loads(data, parse_int=_whole_number, parse_float=_number, parse_constant=_number)
        if b"\\ud" in data.lower():
            json.dumps(body, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as exc:
        raise invalid_json() from exc
    if not isinstance(body, dict):
        raise invalid_json()
    return body, {}


def _number(text: str) -> float:
    """What JavaScript has no finite number for is no JSON number either."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _whole_number(text: str) -> int | float:
    """Beyond what a double holds exactly it becomes one."""
    return int(text) if len(text) <= EXACT_DIGITS else _number(text)


async def _read_form(request: Request) -> tuple[Json, Json]:
    """Fields by name; of files only what they are called and how large they are."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode("latin-1")
    form = BytesParser(policy=HTTP).parsebytes(head + await request.body())
    fields: Json = {}
    files: Json = {}
    for part in form.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True) or b""
        if part.get_filename() is None:
            fields[str(name)] = bytes(content).decode("utf-8", "replace")
        else:
            files[str(name)] = {
                "filename": part.get_filename(),
                "content_type": part.get_content_type(),
                "size": len(content),
            }
    return fields, files
