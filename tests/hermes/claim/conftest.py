"""A board over HTTP, a database, a desk, and a hand to play worker and people. Time is one fake clock for all."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hermes.claim import ClaimingPoll, Desk
from hermes.model.card import Card, CardStatus, CardValues, ProtocolTimes
from hermes.model.claim import CardHold, CardInput, ClaimPolicy, ClaimState
from hermes.model.installation import Identity
from hermes.model.json import JSON
from hermes.model.run import Run, RunError, RunState
from hermes.model.step import LeasedRun
from hermes.ports.runs import Resumed
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.limiter import NotedLimiter
from sources.board import BoardServer, running
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard
from sources.notion.init import create_board
from store.database import Database

TIMES = ProtocolTimes(
    guard=timedelta(seconds=10),
    settle=timedelta(seconds=12),
    wait_out=timedelta(seconds=65),
    hint_age=timedelta(seconds=20),
)
LEASE = timedelta(minutes=15)
CLAIM_CALLS = "PATCH /v1/pages/{page_id}"
READ_CALLS = "GET /v1/pages/{page_id}"


@dataclass
class Act:
    function: str
    name: str = "act"

    def args(self, card: CardInput) -> dict[str, JSON]:
        return {"title": card.title, "text": card.description, "body": card.body}


@dataclass
class Installation:
    """One installation: its database and one process on it."""

    name: str
    store: Database
    board: NotionTaskBoard
    identity: Identity
    clock: FakeClock
    policy: ClaimPolicy
    wants: Callable[[Card, datetime], bool] = field(default=lambda _card, _now: True)
    function: str = "work"
    """What its action names."""
    active: bool = True
    configured: bool = True
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        self.restart("boot-1")

    def restart(self, boot_id: str) -> None:
        """A new process on the same database."""
        self.identity = Identity(self.name, boot_id)
        self.desk = self.another_desk(boot_id)
        with self.store.write() as uow:
            uow.places.set_places(self.policy.poll_id, self.policy.max_concurrent)

    def another_desk(self, boot_id: str) -> Desk:
        return Desk(
            self.store,
            lambda: {self.board.key: self.board},
            self.claiming_polls,
            Identity(self.name, boot_id),
            self.clock,
        )

    def claiming_polls(self) -> dict[str, ClaimingPoll]:
        poll = ClaimingPoll(
            self.policy, self.board.key, Act(self.function), lambda card, now: self.wants(card, now), self.active
        )
        return {self.policy.poll_id: poll} if self.configured else {}

    def configure(self, **changes: Any) -> None:
        self.policy = replace(self.policy, **changes)
        with self.store.write() as uow:
            uow.places.set_places(self.policy.poll_id, self.policy.max_concurrent)

    def trust(self) -> None:
        """As after one whole poll that showed nobody else."""
        self.desk.ask(self.board)
        self.clock.advance(timedelta(seconds=1))

    def poll(self) -> Any:
        taken = self.desk.ask(self.board)
        self.desk.tick()
        return taken

    def record(self, card_id: str) -> CardHold:
        with self.store.read() as uow:
            return uow.claims.records(self.board.key, [card_id])[card_id]

    def state(self, card_id: str) -> ClaimState:
        return self.record(card_id).state

    def run_of(self, card_id: str) -> Run:
        run_id = self.record(card_id).run_id
        assert run_id is not None
        with self.store.read() as uow:
            run = uow.runs.get(run_id)
        assert run is not None
        return run

    def runs(self) -> list[Run]:
        with self.store.read() as uow:
            return uow.runs.list(limit=1000)

    # -- playing the worker

    def lease(self) -> list[LeasedRun]:
        with self.store.write() as uow:
            return uow.leases.lease(self.identity.boot_id, timedelta(minutes=5), ["work"], 100)

    def end(self, leased: LeasedRun, state: RunState = RunState.succeeded, **changes: Any) -> None:
        with self.store.write() as uow:
            uow.endings.end(leased.lease, state, **changes)

    def work(self, state: RunState = RunState.succeeded, result: JSON = None, **changes: Any) -> int:
        """Lease what is due and end it so."""
        leased = self.lease()
        for one in leased:
            self.end(one, state, result_json=json.dumps(result), **changes)
        return len(leased)

    def fail_once(self, message: str = "boom", after: timedelta = timedelta(seconds=30)) -> None:
        for leased in self.lease():
            with self.store.write() as uow:
                uow.endings.redeliver(leased.lease, RunError("RuntimeError", message), uow.now + after)

    def resume(self, run_id: str) -> None:
        with self.store.write() as uow:
            assert uow.runs.resume(run_id, held=True) is Resumed.resumed
            uow.claims.resume(run_id)


@dataclass
class Team:
    """The board and its people."""

    server: BoardServer
    board: NotionTaskBoard
    client: NotionClient
    clock: FakeClock
    folder: Path
    databases: Databases
    clients: list[NotionClient] = field(default_factory=list)

    def installation(self, name: str, **policy: Any) -> Installation:
        store = self.databases.open(self.clock, name)
        settings = ClaimPolicy(**{"poll_id": "tasks", "condition_version": "1", "lease": LEASE, **policy})
        return Installation(name, store, self.open_board(name), Identity(name, "boot-1"), self.clock, settings)

    def open_board(self, token: str) -> NotionTaskBoard:
        return NotionTaskBoard("team", self.board.settings, self.client_as(token), clock=self.clock, times=TIMES)

    def client_as(self, token: str) -> NotionClient:
        connection = NotionConnection(token=SecretStr(token), base_url=self.server.url)
        client = NotionClient(connection, NotedLimiter(), name="notion", clock=self.clock)
        self.clients.append(client)
        return client

    # -- playing the people

    def add(self, title: str = "A card", **properties: Any) -> str:
        values = {
            "Name": {"title": [{"text": {"content": title}}]},
            "Status": {"select": {"name": "Todo"}},
            **properties,
        }
        body = {"parent": {"type": "data_source_id", "data_source_id": self.board.key}, "properties": values}
        return str(self.client.write("POST", "pages", body)["id"])

    def move(self, card_id: str, status: str) -> None:
        self.edit(card_id, Status={"select": {"name": status}})

    def edit(self, card_id: str, **properties: Any) -> None:
        self.client.write("PATCH", f"pages/{card_id}", {"properties": properties})

    def trash(self, card_id: str) -> None:
        self.client.write("PATCH", f"pages/{card_id}", {"in_trash": True})

    def retitle(self, card_id: str, title: str) -> None:
        self.edit(card_id, Name={"title": [{"text": {"content": title}}]})

    def write(self, card_id: str, values: CardValues) -> None:
        self.board.write(card_id, values)

    # -- looking

    def card(self, card_id: str) -> Card:
        return self.board.read(card_id)

    def status(self, card_id: str) -> CardStatus:
        return self.card(card_id).status

    def comments(self, card_id: str) -> list[str]:
        found = self.client.read("GET", "comments", query={"block_id": card_id})["results"]
        return ["".join(part["plain_text"] for part in comment["rich_text"]) for comment in found]

    def fault(self, **fault: Any) -> None:
        self._admin("POST", "faults", fault)

    def clear_faults(self) -> None:
        self._admin("DELETE", "faults")

    def forget_calls(self) -> None:
        self._admin("DELETE", "ledger")

    def calls_of(self, card_id: str) -> dict[str, int]:
        """What the board counted for this card since `forget_calls`, by route."""
        ledger = self._admin("GET", "ledger")
        found: dict[str, int] = ledger["pages"].get(card_id, {})
        return found

    def _admin(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server.url}/_board/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=5) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None


@pytest.fixture
def team(tmp_path: Path, databases: Databases) -> Iterator[Team]:
    clock = FakeClock()
    with running(tmp_path / "board.db", clock=clock) as server:
        connection = NotionConnection(token=SecretStr("people"), base_url=server.url)
        client = NotionClient(connection, NotedLimiter(), name="notion", clock=clock)
        settings = BoardSettings(connection="notion", board="made below")
        made = create_board(client, settings, title="Team")
        settings = BoardSettings(connection="notion", board=made.located.data_source_id)
        board = NotionTaskBoard("team", settings, client, clock=clock, times=TIMES)
        team = Team(server, board, client, clock, tmp_path, databases)
        yield team
        for closing in (*team.clients, client):
            closing.close()


@pytest.fixture
def hermes(team: Team) -> Installation:
    """One installation that already knows to be alone."""
    installation = team.installation("alone")
    installation.trust()
    return installation
