"""A board served over HTTP, and a client for a server that misbehaves on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlmodel import SQLModel

import store.tables  # noqa: F401 -- registers the tables
from hermes.claim import ClaimingPoll, Desk
from hermes.clock import SystemClock
from hermes.errors import SourceError
from hermes.limits import Breaker, DatabaseLimiter
from hermes.model.card import ProtocolTimes
from hermes.model.claim import CardInput, ClaimPolicy
from hermes.model.installation import Identity
from hermes.model.json import JSON
from hermes.model.run import RunState
from hermes.testing.clock import FakeClock
from hermes.testing.limiter import NotedLimiter
from hermes.testing.odd_server import OddServer
from sources.board import PERSON_TOKEN, BoardServer, running
from sources.board.ids import bot_id
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard
from sources.notion.init import create_board
from store.database import Database


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
    admin.delete("/_board/faults")  # the server is everybody's
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


TIMES = ProtocolTimes(
    guard=timedelta(seconds=10),
    settle=timedelta(seconds=12),
    wait_out=timedelta(seconds=65),
    hint_age=timedelta(seconds=20),
)


@dataclass
class _Act:
    function: str = "work"
    name: str = "act"

    def args(self, card: CardInput) -> dict[str, JSON]:
        return {"title": card.title}


@dataclass
class Crew:
    """One installation at work on a board over HTTP, with the limiter and breaker it has in earnest. One clock for all:
    who sleeps moves it. The people are spared by every plan and limit."""

    server: BoardServer
    clock: FakeClock
    store: Database
    board: NotionTaskBoard
    people: NotionClient
    breaker: Breaker
    limiter: DatabaseLimiter
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        poll = ClaimingPoll(
            ClaimPolicy("tasks", "1", lease=timedelta(minutes=15), max_concurrent=3, comment_on=frozenset()),
            self.board.key,
            _Act(),
            lambda card, now: True,
        )
        identity = Identity("crew", "boot-1")
        self.desk = Desk(
            self.store, lambda: {self.board.key: self.board}, lambda: {"tasks": poll}, identity, self.clock
        )
        with self.store.write() as uow:
            uow.places.set_places("tasks", 3)

    # -- people and faults

    def add(self, title: str = "A card") -> str:
        values = {"Name": {"title": text(title)}, "Status": {"select": {"name": "Todo"}}}
        body = {"parent": {"type": "data_source_id", "data_source_id": self.board.key}, "properties": values}
        return str(self.people.write("POST", "pages", body)["id"])

    def shown(self, card_id: str) -> str:
        return self.board_shows(card_id, "Status")

    def board_shows(self, card_id: str, column: str) -> str:
        """As a person sees it: past every fault."""
        store = self.server.board.store
        page = store.get(card_id)
        assert page is not None
        source = store.get(page.parent_id)
        assert source is not None
        for property_id, prop in source.body["properties"].items():
            if prop["name"] == column:
                value = page.body["properties"].get(property_id)
                if prop["type"] == "select":
                    return str(next((o["name"] for o in prop["options"] if o["id"] == value), ""))
                return "".join(part["content"] for part in value or ())
        raise AssertionError(f"no column {column}")

    def last_error(self, card_id: str) -> str:
        return self.board_shows(card_id, "LastError")

    def fault(self, name: str, value: Any = None, **more: Any) -> None:
        self._admin("POST", "faults", {"name": name, "value": value, **more})

    def plan(self, **rates: Any) -> None:
        self._admin("POST", "faults", {"plan": rates})

    def clear(self) -> None:
        self._admin("DELETE", "faults")

    def forget(self) -> None:
        self._admin("DELETE", "ledger")

    def calls(self) -> list[dict[str, Any]]:
        """Ours, since `forget`."""
        ours = bot_id(self.board.client.connection.bearer)
        return [call for call in self._admin("GET", "ledger")["calls"] if call["bot"] == ours]

    # -- Hermes

    def poll(self) -> SourceError | None:
        """One occurrence of the poll; what it raised."""
        try:
            self.desk.ask(self.board)
        except SourceError as error:
            return error
        finally:
            self.desk.tick()
        return None

    def work(self, result: JSON = None) -> int:
        """The worker: whatever is due succeeds."""
        with self.store.write() as uow:
            leased = uow.leases.lease("boot-1", timedelta(minutes=5), ["work"], 100)
        for one in leased:
            with self.store.write() as uow:
                uow.endings.end(one.lease, RunState.succeeded, result_json=json.dumps(result))
        return len(leased)

    def go_on(self, seconds: float, step: float = 10) -> None:
        """Poll, work and show, as time goes by."""
        for _ in range(int(seconds / step)):
            self.clock.advance(timedelta(seconds=step))
            self.poll()
            self.work()
            self.desk.tick()

    def runs(self) -> int:
        with self.store.read() as uow:
            return len(uow.runs.list(limit=1000))

    def _admin(self, method: str, path: str, body: object = None) -> Any:
        with httpx.Client(base_url=self.server.url, trust_env=False) as admin:
            answer = admin.request(method, f"/_board/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Already knows to be alone on its board."""
    clock = FakeClock()
    store = Database(f"sqlite:///{tmp_path / 'hermes.db'}", clock)
    SQLModel.metadata.create_all(store.engine)
    with running(tmp_path / "board.db", clock=clock) as server:
        people = NotionClient(
            NotionConnection(token=SecretStr(PERSON_TOKEN), base_url=server.url), NotedLimiter(), clock=clock
        )
        settings = BoardSettings(connection="local", board="made below")
        made = create_board(people, settings, title="Team")
        settings = BoardSettings(connection="local", board=made.located.data_source_id)
        connection = NotionConnection(token=SecretStr("crew"), base_url=server.url, timeout_seconds=5)
        limiter = DatabaseLimiter(connection.credential_key, store, clock)
        breaker = Breaker(clock)
        client = NotionClient(connection, limiter, clock=clock, breaker=breaker)
        board = NotionTaskBoard("team", settings, client, clock=clock, times=TIMES)
        crew = Crew(server, clock, store, board, people, breaker, limiter)
        assert crew.poll() is None
        clock.advance(timedelta(seconds=30))
        crew.forget()
        yield crew
        client.close()
        people.close()
    store.close()
