"""The board as a process of its own, under several clients at once."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from notion_client import Client

from sources.board import ROOT_PAGE_ID, running
from sources.board.server import is_served

SERVE = """
import sys
from pathlib import Path
from sources.board import serve
serve(Path(sys.argv[1]), port=int(sys.argv[2]))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start(path: Path, port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(path), str(port)])
    for _ in range(300):
        if is_served(f"http://127.0.0.1:{port}"):
            return process
        assert process.poll() is None
        threading.Event().wait(0.05)
    process.kill()
    pytest.fail("the board did not come up")


def title(words: str) -> dict[str, Any]:
    return {"title": [{"text": {"content": words}}]}


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_was_answered_survives_the_end_of_the_process(tmp_path: Path, ending: signal.Signals) -> None:
    port = free_port()
    process = start(tmp_path / "b.db", port)
    with Client(auth="x", base_url=f"http://127.0.0.1:{port}") as client:
        made = client.pages.create(parent={"page_id": ROOT_PAGE_ID}, properties=title("kept"))
    process.send_signal(ending)
    assert process.wait(10) == (-9 if ending == signal.SIGKILL else 0)
    assert not is_served(f"http://127.0.0.1:{port}")
    with running(tmp_path / "b.db") as server, Client(auth="x", base_url=server.url) as client:
        assert client.pages.retrieve(made["id"])["properties"]["title"]["title"][0]["plain_text"] == "kept"


def test_a_call_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    port = free_port()
    process = start(tmp_path / "b.db", port)
    url = f"http://127.0.0.1:{port}"
    httpx.post(f"{url}/_board/faults", json={"kind": "hang", "seconds": 0.5})
    answers: list[int] = []
    headers = {"Authorization": "Bearer x", "Notion-Version": "2026-03-11"}

    def ask() -> None:
        answers.append(httpx.get(f"{url}/v1/users/me", headers=headers, timeout=10).status_code)

    asker = threading.Thread(target=ask)
    asker.start()
    while httpx.get(f"{url}/_board/faults").json()["pending"]:
        threading.Event().wait(0.01)
    process.send_signal(signal.SIGTERM)
    asker.join()
    assert answers == [200]
    assert process.wait(10) == 0


def test_many_clients_at_once_lose_no_write(tasks: Any, http: httpx.Client, connect: Callable[..., Client]) -> None:
    cards = [tasks.add(str(n)) for n in range(8)]
    http.delete("/_board/ledger")

    def write(card: str) -> None:
        client = connect(token=f"token of {card}")
        for number in range(25):
            client.pages.update(card, properties={"RetryCount": {"number": number}})
            client.comments.create(parent={"page_id": card}, rich_text=[{"text": {"content": str(number)}}])

    with ThreadPoolExecutor(len(cards)) as writers:
        list(writers.map(write, cards))
    ledger = http.get("/_board/ledger").json()
    assert ledger["routes"] == {"PATCH /v1/pages/{page_id}": 200, "POST /v1/comments": 200}
    assert len(ledger["bots"]) == 8
    for card in cards:
        assert tasks.read(card)["properties"]["RetryCount"]["number"] == 24
        assert len(tasks.client.comments.list(block_id=card)["results"]) == 25
