"""What stands before every request: which hosts the API answers for, how many requests it takes at once, and that no
accident inside is told to the caller.

There is no CORS: no page of another site has business here.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.api.problems import SOON, accident, answer

log = structlog.get_logger("hermes.api")

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
MOST_AT_ONCE = 1_024
"""Requests under way; their bodies stand in memory. More are told to come again."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = ()) -> None:
        """`hosts` are names beside this machine's own under which the API may be asked for."""
        self._app = app
        self._hosts = LOOPBACK | frozenset(host.lower() for host in hosts)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if not self._answers_for(scope):
            refusal = answer(421, "wrong_host", "The API does not answer for that host name (`api: hosts:`).")
            await refusal(scope, receive, guarded)
            return
        if self._under_way >= MOST_AT_ONCE:
            await answer(429, "busy", "Too many requests at once.", SOON)(scope, receive, guarded)
            return
        # Routes are matched on the path as it was sent: an encoded slash separates nothing.
        scope["path"] = scope["raw_path"].decode("ascii")
        self._under_way += 1
        try:
            await self._app(scope, receive, guarded)
        except Exception:  # the top of a request
            log.exception("the API failed", path=scope["path"][:200])
            if not started:
                await accident()(scope, receive, guarded)
        finally:
            self._under_way -= 1

    def _answers_for(self, scope: Scope) -> bool:
        named = [value for name, value in scope["headers"] if name == b"host"]
        return len(named) == 1 and _name_of(named[0].decode("latin-1")) in self._hosts


def _name_of(host: str) -> str:
    """Without the port, and without the brackets of an IPv6 address."""
    try:
        return "" if "@" in host else (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
