"""What a request carries: a JSON object, or the parts of a form."""

from __future__ import annotations

import json
import math
from email.parser import BytesParser
from email.policy import HTTP

from starlette.requests import ClientDisconnect, Request

from sources.board.call import Json
from sources.board.errors import invalid, invalid_json

MAX_BODY_BYTES = 500 * 1024
EXACT_DIGITS = 15


async def read_body(request: Request) -> tuple[Json, Json]:
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
