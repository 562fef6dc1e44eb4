"""A board served over HTTP, and a client for a server that misbehaves on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hermes.testing.limiter import NotedLimiter
from hermes.testing.odd_server import OddServer
from sources.board import BoardServer, running
from sources.board.ids import bot_id
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard


def text(content: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": {"content": content}}] if content else []


COLUMNS: dict[str, Any] = {
    "Name": {"title": {}},
    "Status": {"select": {"options": [{"name": name} for name in ("Todo", "InProgress", "Complete", "Failed")]}},
    "Priority": {"select": {"options": [{"name": name} for name in ("Urgent", "High", "Low")]}},
    "ClaimedBy": {"rich_text": {}},
    "RunId": {"rich_text": {}},
    "ClaimedAt": {"date": {}},
    "ClaimExpiresAt": {"date": {}},
    "CompletedAt": {"date": {}},
    "RetryCount": {"number": {}},
    "LastError": {"rich_text": {}},
    "Description": {"rich_text": {}},
}


@dataclass
class Bench:
    """One database on the served board, with an adapter on it and a second client that plays the people."""

    server: BoardServer
    limiter: NotedLimiter
    connection: NotionConnection
    client: NotionClient
    board: NotionTaskBoard
    database: dict[str, Any]

    @property
    def source(self) -> str:
        return str(self.database["data_sources"][0]["id"])

    def add(self, title: str = "A card", **properties: Any) -> str:
        properties = {"Name": {"title": text(title)}, "Status": {"select": {"name": "Todo"}}, **properties}
        body = {"parent": {"type": "data_source_id", "data_source_id": self.source}, "properties": properties}
        return str(self.client.write("POST", "pages", body)["id"])

    def edit(self, page_id: str, **properties: Any) -> None:
        self.client.write("PATCH", f"pages/{page_id}", {"properties": properties})

    def alter(self, **properties: Any) -> None:
        """Change the board's columns: a new name, new options, None deletes."""
        self.client.write("PATCH", f"data_sources/{self.source}", {"properties": properties})

    def fault(self, **fault: Any) -> None:
        self._admin("POST", "faults", fault)

    def calls(self) -> dict[str, int]:
        """Routes the adapter called since the last question, and how often."""
        by_bot: dict[str, dict[str, int]] = self._admin("GET", "ledger")["bots"]
        self._admin("DELETE", "ledger")
        return by_bot.get(bot_id(self.server.token), {})

    def _admin(self, method: str, path: str, body: object = None) -> Any:
        answer = httpx.request(method, f"{self.server.url}/_board/{path}", json=body, trust_env=False)
        answer.raise_for_status()
        return answer.json() if answer.content else None


MakeBench = Callable[..., Bench]


@pytest.fixture
def limiter() -> NotedLimiter:
    return NotedLimiter()


@pytest.fixture
def make_bench(tmp_path: Path, limiter: NotedLimiter) -> Iterator[MakeBench]:
    """`make_bench(columns=..., timeout_seconds=..., **board_settings)`. A column that is None is left out."""
    opened: list[NotionClient] = []
    with running(tmp_path / "board.db") as server:

        def make(
            columns: dict[str, Any] | None = None, title: str = "Tasks", timeout_seconds: float = 5, **settings: Any
        ) -> Bench:
            schema = {name: kind for name, kind in {**COLUMNS, **(columns or {})}.items() if kind is not None}
            connection = NotionConnection(
                token=SecretStr(server.token), base_url=server.url, timeout_seconds=timeout_seconds
            )
            people = NotionClient(NotionConnection(token=SecretStr("people"), base_url=server.url), NotedLimiter())
            client = NotionClient(connection, limiter, name="local")
            opened.extend((people, client))
            database = people.write(
                "POST",
                "databases",
                {
                    "parent": {"type": "page_id", "page_id": server.root_page_id},
                    "title": text(title),
                    "initial_data_source": {"properties": schema},
                },
            )
            wanted = {"connection": "local", "board": database["id"], **settings}
            board = NotionTaskBoard("team", BoardSettings.model_validate(wanted), client)
            return Bench(server, limiter, connection, people, board, database)

        yield make
        for client in opened:
            client.close()


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench()


@pytest.fixture
def odd() -> Iterator[OddServer]:
    server = OddServer()
    yield server
    server.close()


def _odd_client(odd: OddServer, limiter: NotedLimiter, seconds: float) -> Iterator[NotionClient]:
    connection = NotionConnection(token=SecretStr("ntn_very_secret_token"), base_url=odd.url, timeout_seconds=seconds)
    client = NotionClient(connection, limiter)
    yield client
    client.close()


@pytest.fixture
def odd_client(odd: OddServer, limiter: NotedLimiter) -> Iterator[NotionClient]:
    yield from _odd_client(odd, limiter, 5)


@pytest.fixture
def hasty_client(odd: OddServer, limiter: NotedLimiter) -> Iterator[NotionClient]:
    """Gives a call half a second."""
    yield from _odd_client(odd, limiter, 0.5)
