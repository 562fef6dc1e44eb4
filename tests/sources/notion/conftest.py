"""A board served over HTTP, and a client for a server that misbehaves on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hermes.clock import SystemClock
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
    admin: httpx.Client
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
        properties = {name: value for name, value in properties.items() if value is not None}
        body = {"parent": {"type": "data_source_id", "data_source_id": self.source}, "properties": properties}
        return str(self.client.write("POST", "pages", body)["id"])

    def edit(self, page_id: str, **properties: Any) -> None:
        self.client.write("PATCH", f"pages/{page_id}", {"properties": properties})

    def alter(self, **properties: Any) -> None:
        """Change the board's columns: a new name, new options, None deletes."""
        self.client.write("PATCH", f"data_sources/{self.source}", {"properties": properties})

    def fault(self, **fault: Any) -> None:
        self._admin("POST", "faults", fault)

    def forget(self) -> None:
        """No faults are waiting, no calls were counted."""
        self._admin("DELETE", "faults")
        self._admin("DELETE", "ledger")

    def calls(self) -> dict[str, int]:
        """Routes the adapter called since the last question, and how often."""
        by_bot: dict[str, dict[str, int]] = self._admin("GET", "ledger")["bots"]
        self._admin("DELETE", "ledger")
        return by_bot.get(bot_id(self.server.token), {})

    def _admin(self, method: str, path: str, body: object = None) -> Any:
        answer = self.admin.request(method, f"/_board/{path}", json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None


MakeBench = Callable[..., Bench]


@pytest.fixture
def limiter() -> NotedLimiter:
    return NotedLimiter()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardServer]:
    """One for all: every test has a database of its own on it."""
    with running(tmp_path_factory.mktemp("board") / "board.db") as server:
        yield server


@pytest.fixture(scope="session")
def admin(server: BoardServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False) as admin:
        yield admin


@pytest.fixture(scope="session")
def people(server: BoardServer) -> Iterator[NotionClient]:
    client = NotionClient(NotionConnection(token=SecretStr("people"), base_url=server.url), NotedLimiter())
    yield client
    client.close()


@pytest.fixture
def make_bench(
    server: BoardServer, admin: httpx.Client, people: NotionClient, limiter: NotedLimiter
) -> Iterator[MakeBench]:
    """`make_bench(columns=..., **settings)`: a column that is None is left out; `names` are the settings' `columns`."""
    opened: list[NotionClient] = []

    def make(
        columns: dict[str, Any] | None = None,
        names: dict[str, Any] | None = None,
        title: str = "Tasks",
        timeout_seconds: float = 5,
        **settings: Any,
    ) -> Bench:
        schema = {name: kind for name, kind in {**COLUMNS, **(columns or {})}.items() if kind is not None}
        connection = NotionConnection(
            token=SecretStr(server.token), base_url=server.url, timeout_seconds=timeout_seconds
        )
        client = NotionClient(connection, limiter, name="local")
        opened.append(client)
        database = people.write(
            "POST",
            "databases",
            {
                "parent": {"type": "page_id", "page_id": server.root_page_id},
                "title": text(title),
                "initial_data_source": {"properties": schema},
            },
        )
        wanted = {"connection": "local", "board": database["id"], "columns": names or {}, **settings}
        board = NotionTaskBoard("team", BoardSettings.model_validate(wanted), client)
        bench = Bench(server, admin, limiter, connection, people, board, database)
        bench.forget()
        return bench

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


class Unhurried(SystemClock):
    """Real time, but between two attempts none passes."""

    def sleep(self, seconds: float) -> None:
        return


def _odd_client(odd: OddServer, limiter: NotedLimiter, seconds: float) -> Iterator[NotionClient]:
    connection = NotionConnection(token=SecretStr("ntn_very_secret_token"), base_url=odd.url, timeout_seconds=seconds)
    client = NotionClient(connection, limiter, clock=Unhurried())
    yield client
    client.close()


@pytest.fixture
def odd_client(odd: OddServer, limiter: NotedLimiter) -> Iterator[NotionClient]:
    yield from _odd_client(odd, limiter, 5)


@pytest.fixture
def hasty_client(odd: OddServer, limiter: NotedLimiter) -> Iterator[NotionClient]:
    """Gives a call half a second."""
    yield from _odd_client(odd, limiter, 0.5)
