"""The fault proxy does what it says, seen from both ends."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from notion_client import Client as NotionClient

from hermes.testing.proxy import Proxy, When
from sources.board import ROOT_PAGE_ID, running


class Echo:
    """Answers each line with the same line, and remembers what it has got."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                side, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(side,), daemon=True).start()

    def _answer(self, side: socket.socket) -> None:
        with side, side.makefile("rwb") as lines:
            try:
                for line in lines:
                    self.got.append(line.strip())
                    lines.write(line)
                    lines.flush()
            except OSError:
                pass
        self.ended.set()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo.port) as proxy:
        yield proxy


class Client:
    def __init__(self, proxy: Proxy, timeout: float) -> None:
        self.side = socket.create_connection(("127.0.0.1", proxy.port), timeout=timeout)

    def ask(self, line: bytes) -> bytes:
        self.side.sendall(line + b"\n")
        answer = self.side.recv(4096)
        if not answer:
            raise ConnectionResetError("ended")
        return answer.strip()


Connect = Callable[..., Client]


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Connect]:
    clients: list[Client] = []

    def connect(timeout: float = 10) -> Client:
        clients.append(Client(proxy, timeout))
        return clients[-1]

    yield connect
    for client in clients:
        client.side.close()


def test_it_passes_bytes_both_ways_and_the_end_too(proxy: Proxy, echo: Echo, connect: Connect) -> None:
    client = connect()
    big = b"x" * 300_000
    client.side.sendall(big + b"\n")
    answered = b""
    while not answered.endswith(b"\n"):
        answered += client.side.recv(65536)
    assert answered == big + b"\n"
    client.side.close()
    assert echo.ended.wait(10)


def test_it_refuses_new_connections_and_keeps_old_ones(proxy: Proxy, connect: Connect) -> None:
    old = connect()
    assert old.ask(b"a") == b"a"
    proxy.refuse()
    with pytest.raises(ConnectionError):
        connect().ask(b"b")
    assert old.ask(b"c") == b"c"
    proxy.pass_on()
    assert connect().ask(b"d") == b"d"


def test_it_resets_what_is_open(proxy: Proxy, echo: Echo, connect: Connect) -> None:
    client = connect()
    client.ask(b"a")
    assert proxy.cut() == 1
    with pytest.raises(ConnectionError):
        client.ask(b"b")
    assert echo.ended.wait(10)
    assert echo.got == [b"a"]
    assert connect().ask(b"c") == b"c"


@pytest.mark.parametrize("when", When)
def test_it_cuts_at_the_nth_request_of_all_connections(proxy: Proxy, echo: Echo, when: When, connect: Connect) -> None:
    one, two = connect(), connect()
    cut = proxy.cut_at(b"COMMIT", 3, when)
    assert one.ask(b"COMMIT 1") == b"COMMIT 1"
    assert two.ask(b"COMMIT 2") == b"COMMIT 2"
    with pytest.raises(ConnectionError):
        one.ask(b"COMMIT 3")
    assert cut.wait(10)
    assert two.ask(b"COMMIT 4") == b"COMMIT 4"  # once, and that connection alone
    assert echo.ended.wait(10)
    assert (b"COMMIT 3" in echo.got) is (when is not When.unsent)


def test_it_delays_each_piece(proxy: Proxy, connect: Connect) -> None:
    client = connect()
    client.ask(b"a")
    proxy.delay_seconds = 0.1
    began = time.monotonic()
    assert client.ask(b"b") == b"b"
    assert time.monotonic() - began >= 0.2


def test_a_black_hole_takes_everything_and_closes_nothing(proxy: Proxy, echo: Echo, connect: Connect) -> None:
    client = connect(timeout=0.3)
    client.ask(b"a")
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        client.ask(b"b")
    late = connect(timeout=0.3)  # connecting works, as behind a firewall that drops
    with pytest.raises(TimeoutError):
        late.ask(b"c")
    proxy.pass_on()
    assert connect().ask(b"d") == b"d"
    assert echo.got == [b"a", b"d"]


def test_in_front_of_an_http_server_a_change_is_made_and_not_answered() -> None:
    made = []

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            made.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Proxy("127.0.0.1", server.server_port) as proxy:
        cut = proxy.cut_at(b"PATCH /cards/2")
        for number in (1, 2):
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
            connection.request("PATCH", f"/cards/{number}")
            if number == 1:
                assert connection.getresponse().status == 200
            else:
                with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
                    connection.getresponse()
            connection.close()
        assert cut.wait(10)
    server.shutdown()
    server.server_close()
    assert made == ["/cards/1", "/cards/2"]


def test_in_front_of_the_board_a_card_is_moved_once_and_its_client_does_not_know(tmp_path: Path) -> None:
    """As Notion behind a network that breaks: the real client, one PATCH whose answer is lost."""
    with running(tmp_path / "board.db") as board, Proxy("127.0.0.1", httpx.URL(board.url).port or 0) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        with NotionClient(auth=board.token, base_url=url, retry=False, log_level=60) as client:
            title: dict[str, Any] = {"title": [{"text": {"content": "before"}}]}
            page: Any = client.pages.create(parent={"page_id": ROOT_PAGE_ID}, properties=title)
            cut = proxy.cut_at(b"PATCH /v1/pages/")
            title["title"][0]["text"]["content"] = "after"
            with pytest.raises(httpx.TransportError):
                client.pages.update(page["id"], properties=title)
            assert cut.wait(10)
            found: Any = client.pages.retrieve(page["id"])
            assert found["properties"]["title"]["title"][0]["plain_text"] == "after"
            proxy.refuse()
            proxy.cut()
            with pytest.raises(httpx.TransportError):
                client.pages.retrieve(page["id"])
