"""Serving a board: as a process of its own, or in a thread of a test."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.clock import Clock
from hermes.serving import ServerThread
from sources.board.app import build_app
from sources.board.board import Board
from sources.board.config import DEFAULT_PORT
from sources.board.ids import PERSON_ID, ROOT_PAGE_ID

Faults: TypeAlias = Sequence[dict[str, Any]]


class _Protocol(H11Protocol):
    """Lets the application cut a connection, which a fault does between commit and answer."""

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:
            self.scope["state"]["board.transport"] = self.transport


@dataclass(frozen=True, slots=True)
class BoardServer:
    """A board that runs in this process."""

    url: str
    token: str
    board: Board
    root_page_id: str = ROOT_PAGE_ID
    person_id: str = PERSON_ID


def _config(board: Board, hosts: Iterable[str], faults: Faults = (), **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        build_app(board, hosts=hosts, faults=faults),
        http=_Protocol,
        lifespan="off",
        ws="none",
        date_header=False,
        server_header=False,
        log_config=None,
        access_log=False,
        **options,
    )


def serve(
    path: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    tokens: Mapping[str, str] | None = None,
    workspace_name: str = "Local board",
    durable: bool = True,
    clock: Clock | None = None,
    hosts: Iterable[str] = (),
    faults: Faults = (),
) -> None:
    """Serve the board kept in `path` until SIGTERM or SIGINT; then finish what is under way and close the file.

    `hosts` are host names beside `host` and this machine's own that browsers and clients may ask for it under.
    `faults` are switched on from the start, as they would be posted to /_board/faults.
    """
    board = Board(path, clock=clock, tokens=tokens, workspace_name=workspace_name, durable=durable)
    try:
        _ProcessServer(_config(board, {host, *hosts}, faults, host=host, port=port, timeout_graceful_shutdown=5)).run()
    finally:
        board.close()


def is_served(url: str) -> bool:
    """Whether a local board answers there."""
    try:
        with urllib.request.urlopen(f"{url}/_board/", timeout=2) as answer:  # noqa: S310 -- our own loopback address
            return "root_page_id" in json.load(answer)
    except (OSError, ValueError):
        return False


@contextmanager
def running(
    path: Path,
    *,
    port: int = 0,
    tokens: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    durable: bool = False,
) -> Iterator[BoardServer]:
    """A board on this machine's loopback for as long as the block lasts, in a thread; port 0 takes a free one."""
    board = Board(path, clock=clock, tokens=tokens, durable=durable)
    listener = _listen(port)
    port = listener.getsockname()[1]
    thread = ServerThread(_config(board, (), timeout_graceful_shutdown=1), listener, "board")
    try:
        token = next(iter(tokens)) if tokens else "local-board"
        yield BoardServer(url=f"http://127.0.0.1:{port}", token=token, board=board)
    finally:
        thread.stop()
        board.close()


def _listen(port: int) -> socket.socket:
    """With the protocol named: asyncio turns Nagle's delay off only for sockets that say they are TCP."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


class _ProcessServer(uvicorn.Server):
    """Ends in peace: uvicorn's own would raise the signal again once it has stopped, before the file is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
