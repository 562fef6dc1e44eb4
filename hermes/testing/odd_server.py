"""A real HTTP server that misbehaves as told: for what an adapter does when the other side is not well."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

Answer = bytes | Callable[[socket.socket], None]


class OddServer:
    """Answers each connection with the next of `answers`: bytes to send, or a function that does what it likes with the
    socket. The last one is kept for all that follow."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[bytes] = []
        self.reads = True
        """False: leaves the request in the socket."""
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def trickle(self, first: bytes, every: float = 0.02) -> Callable[[socket.socket], None]:
        """Sends a byte now and then, for ever."""

        def send(peer: socket.socket) -> None:
            peer.sendall(first)
            while not self.over.wait(every):
                peer.sendall(b" ")

        return send

    def silent(self, peer: socket.socket) -> None:
        self.over.wait()

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with peer:
            try:
                if self.reads:
                    self.requests.append(_one_request(peer))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if callable(answer):
                    answer(peer)
                else:
                    peer.sendall(answer)
            except OSError:
                return  # the client went away, as it should


def _one_request(peer: socket.socket) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = peer.recv(65536)
        if not part:
            return raw
        raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next((int(row[15:]) for row in head.split(b"\r\n") if row.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


def http_answer(status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> bytes:
    raw = json.dumps(body).encode() if isinstance(body, dict) else body
    rows = {"content-length": str(len(raw)), "connection": "close", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in rows.items())
    return f"HTTP/1.1 {status} Odd\r\n{head}\r\n".encode() + raw
