"""A total deadline for a call. httpx's timeouts are per read: an answer that trickles in outlives them.

Every socket operation of a call is cut to the time that is left, and names are looked up off the calling thread,
because `getaddrinfo` takes no timeout. Sockets live in real time, so this always reads the system's clock.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import httpcore
import httpx

from hermes.clock import SystemClock

SocketOptions: TypeAlias = Iterable[Any] | None

_SLICE = 16 * 1024  # a peer that reads slowly is noticed between slices
_ends_at: ContextVar[float | None] = ContextVar("hermes_notion_deadline", default=None)
_boot_seconds = SystemClock().boot_seconds


@contextmanager
def total_deadline(seconds: float) -> Iterator[None]:
    """HTTP calls of this thread inside the block end within `seconds` altogether."""
    token = _ends_at.set(_boot_seconds() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


def enforce_deadlines(client: httpx.Client) -> httpx.Client:
    """Make `total_deadline` hold for `client`, also through the proxies it took from the environment."""
    # httpx offers no way to hand its pools a network backend; the trickle test fails if these names ever move.
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Backend()
    return client


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    ends_at = _ends_at.get()
    if ends_at is None:
        return timeout
    left = ends_at - _boot_seconds()
    if left <= 0:
        raise late("the total time of the call is over")
    return left if timeout is None else min(timeout, left)


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions = None,
    ) -> httpcore.NetworkStream:
        addresses = _addresses(host, port, _left(timeout, httpcore.ConnectTimeout))
        for position, address in enumerate(addresses):
            left = _left(timeout, httpcore.ConnectTimeout)
            last = position == len(addresses) - 1
            # An address that swallows packets (IPv6 without a route) leaves time for the next one.
            share = left if last or left is None else left / 2
            try:
                return _Stream(self._sockets.connect_tcp(address, port, share, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if last:
                    raise
        raise httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: SocketOptions = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._sockets.connect_unix_socket(path, left, socket_options))

    def sleep(self, seconds: float) -> None:
        self._sockets.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE):
            self._stream.write(buffer[start : start + _SLICE], _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    found: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.put(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except OSError as exc:
            found.put(exc)

    threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
    try:
        answer = found.get(timeout=timeout)
    except queue.Empty:
        raise httpcore.ConnectTimeout(f"looking up {host} took too long") from None
    if isinstance(answer, OSError):
        raise httpcore.ConnectError(f"{host} cannot be looked up: {answer}") from answer
    return answer
