"""What is read of a request by hand: its body, up to a limit and a time, and texts that must arrive as they were."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import unquote_to_bytes

from fastapi import Request
from starlette.requests import ClientDisconnect

from hermes.api.problems import Problem
from hermes.api.service import Service
from hermes.model.json import JSON
from hermes.strict_json import NotJson, read_json

BODY_SECONDS = 20.0
"""In which a body must have come whole."""
SMALL_BYTES = 8 * 1024
"""Read at once: sooner done than handed to a thread."""
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def decoded(segment: str) -> str:
    """A part of the path, percent-decoded once; nothing is trimmed or folded."""
    try:
        if _BROKEN_ESCAPE.search(segment):
            raise ValueError(segment)
        return unquote_to_bytes(segment).decode("utf-8")
    except ValueError:
        raise Problem(400, "bad_path", "The path is not percent-encoded UTF-8.") from None


def header(request: Request, name: str) -> str | None:
    """None when it is not there. Twice is no answer to which."""
    given = request.headers.getlist(name)
    if len(given) > 1:
        raise Problem(400, "bad_header", f"{name} was given {len(given)} times.")
    return given[0] if given else None


async def json_body(service: Service, request: Request) -> tuple[JSON] | None:
    """None when there is no body; in a tuple, since `null` is one."""
    raw = await _body(request, service.settings.max_body_bytes)
    if not raw:
        return None
    media_type = (header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if media_type != "application/json" or header(request, "Content-Encoding") not in (None, "identity"):
        raise Problem(415, "not_json", "A body is application/json, and not compressed.")
    try:
        return (read_json(raw) if len(raw) <= SMALL_BYTES else await service.in_thread(lambda: read_json(raw)),)
    except NotJson as error:
        raise Problem(400, "bad_json", f"The body is no JSON that can be used: {error}.") from None


async def _body(request: Request, most: int) -> bytes:
    too_large = Problem(413, "too_large", f"A body has at most {most:,} bytes (`api: max_body_bytes:`).")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared[:20]) > most:
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "too_slow", f"The body did not come within {BODY_SECONDS:g} seconds.") from None
    except ClientDisconnect:
        raise Problem(400, "gone", "The body did not come whole.") from None
    return bytes(found)
