"""What stands before every request: which hosts the board answers for, and that no other site's page makes it change.

Without the first a web page could have its own name resolve to this machine and read the board; without the second it
could post a form. Clients that are no browsers send neither header and are let through: they need no help to do harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_READS = frozenset(("GET", "HEAD", "OPTIONS"))
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = ()) -> None:
        """`hosts` are names beside this machine's own under which the board may be asked for."""
        self._app = app
        self._hosts = LOOPBACK | frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if _name_of(headers.get("host", "")) not in self._hosts:
            await PlainTextResponse("This board does not answer for that host name.\n", 421)(scope, receive, send)
            return
        if scope["method"] not in _READS and _comes_from_elsewhere(headers):
            await PlainTextResponse("This change came from another site and was refused.\n", 403)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_guarded)


def _name_of(host: str) -> str:
    """Without the port, and without the brackets of an IPv6 address."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _comes_from_elsewhere(headers: Headers) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
