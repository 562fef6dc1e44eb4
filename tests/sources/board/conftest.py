"""A board of its own for each test, the real client pointed at it, and a task board on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from notion_client import Client

from hermes.testing.clock import FakeClock
from sources.board import ROOT_PAGE_ID, BoardServer, running

NEWEST = "2026-03-11"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def board(tmp_path: Path, clock: FakeClock) -> Iterator[BoardServer]:
    with running(tmp_path / "board.db", clock=clock) as server:
        yield server


@pytest.fixture
def connect(board: BoardServer) -> Iterator[Callable[..., Client]]:
    """A client with a token and version of its own; never retries."""
    opened: list[Client] = []

    def open_client(*, token: str = board.token, version: str = NEWEST) -> Client:
        client = Client(auth=token, base_url=board.url, notion_version=version, retry=False, log_level=60)
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()


@pytest.fixture
def http(board: BoardServer) -> Iterator[httpx.Client]:
    """Raw requests, with the token and the newest version already in the headers."""
    headers = {"Authorization": f"Bearer {board.token}", "Notion-Version": NEWEST}
    with httpx.Client(base_url=board.url, headers=headers, timeout=10) as client:
        yield client


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": {"content": words}}]


COLUMNS: dict[str, Any] = {
    "Name": {"title": {}},
    "Status": {"status": {"options": [{"name": n} for n in ("Todo", "InProgress", "Complete", "Failed")]}},
    "Priority": {"select": {"options": [{"name": "High"}, {"name": "Low"}]}},
    "Description": {"rich_text": {}},
    "ClaimedBy": {"rich_text": {}},
    "ClaimExpiresAt": {"date": {}},
    "RunId": {"rich_text": {}},
    "RetryCount": {"number": {}},
    "LastError": {"rich_text": {}},
}


@dataclass
class Tasks:
    """A task board on the local board, as Hermes has it."""

    client: Client
    database_id: str
    source_id: str

    def add(self, title: str, **values: Any) -> str:
        properties = {"Name": {"title": text(title)}} | {
            name.replace("_", " "): value for name, value in values.items()
        }
        return str(self.client.pages.create(parent={"data_source_id": self.source_id}, properties=properties)["id"])

    def patch(self, page_id: str, **values: Any) -> dict[str, Any]:
        return dict(self.client.pages.update(page_id, properties=values))

    def read(self, page_id: str) -> dict[str, Any]:
        return dict(self.client.pages.retrieve(page_id))

    def query(self, condition: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
        asked = more if condition is None else {"filter": condition, **more}
        return list(self.client.data_sources.query(self.source_id, **asked)["results"])

    def titles(self, condition: dict[str, Any] | None = None, **more: Any) -> list[str]:
        found = self.query(condition, **more)
        return ["".join(t["plain_text"] for t in page["properties"]["Name"]["title"]) for page in found]


@pytest.fixture
def tasks(client: Client) -> Tasks:
    made = client.databases.create(
        parent={"type": "page_id", "page_id": ROOT_PAGE_ID},
        title=text("Tasks"),
        initial_data_source={"properties": COLUMNS},
    )
    return Tasks(client, made["id"], made["data_sources"][0]["id"])
