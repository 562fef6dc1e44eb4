"""Serving the API from a thread of a process, and what a stranger's connection may take of it."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from typing import Any

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.api.application import build
from hermes.api.service import Service
from hermes.app import App
from hermes.config.hermes_file import Api
from hermes.errors import ConfigError
from hermes.serving import ServerThread

log = structlog.get_logger("hermes.api")

REQUEST_SECONDS = 15.0
"""In which the head of a request must have come, and what is left of a body that was answered without being read."""
MOST_CONNECTIONS = 1_024
_BUSY = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b'Content-Length: 67\r\n\r\n{"error":{"code":"busy","message":"Too many connections at once."}}'
)


class _Protocol(H11Protocol):
    """Lets nobody hold a connection for nothing, and keeps files free for the database."""

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.access_log = False  # whatever handlers there are: instance ids are not for the log

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _most_connections():
            transport.write(_BUSY)
            transport.close()
            return
        self._expect()

    def on_response_complete(self) -> None:
        self._expect()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # else a handler is at it, which has its own limits
            self.transport.close()


def _most_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)


def serve(app: App, settings: Api) -> Callable[[], None]:
    """Returns once it listens, with what ends it: requests under way are answered first. Raises ConfigError."""
    listener = _listen(settings)
    service = Service(app, settings)
    config = uvicorn.Config(
        build(service),
        http=_Protocol,
        lifespan="off",
        ws="none",
        date_header=False,
        server_header=False,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    thread = ServerThread(config, listener, "hermes-api")
    log.info("serving the API", url=url_of(settings))
    if not _only_here(listener):
        with app.store.read() as unit:
            if all(key.revoked_at is not None for key in unit.api_keys.all()):
                log.warning("other machines reach the API and there is no key yet", cure="hermes-poll keys create")

    def stop() -> None:
        thread.stop()
        service.close()

    return stop


def url_of(settings: Api) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}/api/v1"


def _listen(settings: Api) -> socket.socket:
    """With the protocol named: asyncio turns Nagle's delay off only for sockets that say they are TCP."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError(
            f"{settings.host}, port {settings.port} cannot be used for the API ({error.strerror}): end what uses it, "
            "or give it another `port:`",
            where="api",
        ) from error
    return listener


def _only_here(listener: socket.socket) -> bool:
    return str(listener.getsockname()[0]) in ("127.0.0.1", "::1")
