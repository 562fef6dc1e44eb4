"""A proxy for one TCP server that fails as networks do, when a test says so: in front of a database, or of HTTP.

It knows nothing of what passes through it but the bytes it is told to look for.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType

COMMIT = b"\x0bCOMMIT\x00"
"""As psycopg says it to PostgreSQL; `READ COMMITTED` is none."""


class When(Enum):
    """Where a connection is cut, seen from a request that was looked for."""

    unsent = auto()
    """The server has never seen it."""
    sent = auto()
    """The server has got it, and its answer finds nobody."""
    answered = auto()
    """The server has surely carried it out: its answer came, and was thrown away."""


@dataclass
class _Cut:
    pattern: bytes
    left: int
    when: When
    done: threading.Event


class Proxy:
    """`with Proxy(host, port) as proxy:` listens on `proxy.port` of this machine. Thread-safe; every change holds for
    connections that are open already."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._mutex = threading.Lock()
        self._open: set[_Pipe] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._refuses = False
        self._closed = False
        self._cuts: list[_Cut] = []
        self.passing = threading.Event()
        """Not set: a black hole. Bytes are taken and go nowhere; nothing is closed."""
        self.passing.set()
        self.delay_seconds = 0.0
        """Before each piece that is passed on, either way."""
        self.connections = 0
        """How many were ever made."""
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    # -- what a test says

    def pass_on(self) -> None:
        """As a wire again; what a black hole has taken is gone."""
        self.delay_seconds = 0.0
        self.passing.set()
        self.refuse(False)

    def refuse(self, refuses: bool = True) -> None:
        """New connections are reset at once."""
        self._refuses = refuses

    def black_hole(self) -> None:
        self.passing.clear()

    def cut(self) -> int:
        """Reset every connection, both sides; returns how many."""
        with self._mutex:
            pipes = list(self._open)
        for pipe in pipes:
            pipe.reset()
        return len(pipes)

    def cut_at(self, pattern: bytes, hit: int = 1, when: When = When.answered) -> threading.Event:
        """Cut the connection on which a client sends `pattern` for the `hit`-th time, counted over all connections;
        once. The event says that it was."""
        cut = _Cut(pattern, hit, when, threading.Event())
        with self._mutex:
            self._cuts.append(cut)
        return cut.done

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what it does

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pipe = _Pipe(self, client, server)
            with self._mutex:
                self._open.add(pipe)
                self.connections += 1
            pipe.start()

    def meets(self, data: bytes) -> _Cut | None:
        """Of a piece that a client sends: the cut that it brings about."""
        with self._mutex:
            for cut in self._cuts:
                found = data.count(cut.pattern)
                cut.left -= found
                if found and cut.left <= 0:
                    self._cuts.remove(cut)
                    return cut
        return None

    def forget(self, pipe: _Pipe) -> None:
        with self._mutex:
            self._open.discard(pipe)

    def wait(self) -> None:
        if self.delay_seconds:
            threading.Event().wait(self.delay_seconds)


class _Pipe:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._cut: _Cut | None = None
        """Its request has been passed on; the next answer is not."""
        self._ended = threading.Semaphore(0)

    def start(self) -> None:
        for pump in (self._to_server, self._to_client, self._close):
            threading.Thread(target=pump, name=f"proxy-{pump.__name__}", daemon=True).start()

    def reset(self) -> None:
        for side in (self._client, self._server):
            _reset(side)

    def _to_server(self) -> None:
        for data in _pieces(self._client):
            cut = self._proxy.meets(data)
            if cut is not None and cut.when is When.unsent:
                self.reset()
                cut.done.set()
                break
            self._cut = cut or self._cut  # an answer may be there sooner than we are
            if not self._send(self._server, data):
                break
            if cut is not None and cut.when is When.sent:
                _reset(self._client)  # the server reads what came before the end
                cut.done.set()
                break
        self._end(self._server)

    def _to_client(self) -> None:
        for data in _pieces(self._server):
            if self._cut is not None:
                self.reset()
                self._cut.done.set()
                break
            if not self._send(self._client, data):
                break
        self._end(self._client)

    def _send(self, to: socket.socket, data: bytes) -> bool:
        if not self._proxy.passing.is_set():
            return True
        self._proxy.wait()
        try:
            to.sendall(data)
        except OSError:
            return False
        return True

    def _end(self, to: socket.socket) -> None:
        if self._proxy.passing.is_set():  # of a black hole nobody hears that the other end is gone
            with suppress(OSError):
                to.shutdown(socket.SHUT_WR)
        self._ended.release()

    def _close(self) -> None:
        for _ in range(2):
            self._ended.acquire()
        self._proxy.forget(self)
        self._client.close()
        self._server.close()


def _pieces(side: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = side.recv(65536)
        except OSError:
            return
        if not data:
            return
        yield data


def _reset(side: socket.socket) -> None:
    """The other end sees a reset, not an end: as of a machine that was switched off and is back."""
    with suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.shutdown(socket.SHUT_RD)  # wakes who waits in `recv`; the reset follows when that has let go
    side.close()
