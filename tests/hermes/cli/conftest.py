"""One configuration folder with a local board, and the command line called as a person calls it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import update
from typer.testing import CliRunner

from hermes.app import App
from hermes.cli.commands import build
from hermes.model.card import Card, CardStatus, CardValues
from hermes.model.run import Lease, NewRun, Run, RunError, RunKind, RunState
from hermes.model.step import StepKind
from hermes.ports.pending import NewStep, Pending
from hermes.ports.waits import NewWait
from hermes.testing.trial import free_port
from store.tables.runs import RUNS

FUNCTIONS = """
import os
import time
from datetime import timedelta

from hermes.durable import Refused, UnknownOutcome, command, delay, function
from hermes.effects import Effect, dedupe_key, perform
from hermes.model.claim import CardInput


@command(effect="naive", retries=3)
def tell_the_bank(title: str) -> str:
    raise UnknownOutcome("no answer from the bank")


@command(retries=0)
def count(title: str) -> int:
    return len(title)


@function(name="cli_tasks.work")
async def work(card: CardInput) -> str | Refused:
    letters = await count(card.title)
    if card.title.startswith("refuse"):
        return Refused("not this one")
    if card.title.startswith("fail"):
        raise RuntimeError("it \\x1b[31mbroke\\x1b[0m")
    if card.title.startswith("doubt"):
        return await tell_the_bank(card.title)
    if card.title.startswith("sleep"):
        await delay(timedelta(hours=1))
    return f"{letters} letters"


@command(effect="none", timeout=timedelta(minutes=5))
def linger(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.05)
    return "done"


@function(name="cli_tasks.linger")
async def lingering(card: CardInput, path: str) -> str:
    return await linger(path)


@function(name="cli_tasks.pay")
async def pay(card: CardInput) -> str:
    key = dedupe_key(user="u", poll="p", object_id=card.id, cause="1", action="pay", place="1", target="bank",
                     condition_version="1")
    return await perform(Effect.of(tell_the_bank, key, card.title))
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def said(self) -> str:
        return self.out + self.err


class Place:
    """A folder with a configuration, and what it made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.port = free_port()
        (self.config / "polls").mkdir(parents=True)
        (self.config / "cli_tasks.py").write_text(FUNCTIONS)
        self.write_hermes()
        self.write_poll("tasks")

    def write_hermes(self, **more: Any) -> None:
        times = {"guard": 0.2, "settle": 0.3, "wait_out": 0.5, "hint_age": 1}
        content = {
            "functions": ["cli_tasks"],
            "workers": {"slots": 2, "lease": "5s", "tick": "1s"},
            "connections": {"here": {"type": "local", "port": self.port, "times": times}},
            "boards": {"team": {"connection": "here", "board": "Team tasks"}},
            "log": {"format": "json"},
            **more,
        }
        (self.config / "hermes.yaml").write_text(json.dumps(content, indent=2))

    def write_poll(self, name: str, **more: Any) -> None:
        content = {
            "poll": name,
            "source": {"type": "board", "board": "team"},
            "schedule": {"every": "1h"},
            "action": {"type": "function", "function": "cli_tasks.work"},
            "claim": {"max_concurrent": 3, "max_attempts": 1},
            **more,
        }
        (self.config / "polls" / f"{name}.yaml").write_text(json.dumps(content, indent=2))

    def call(self, *args: str, answer: str | None = None) -> Outcome:
        result = CliRunner().invoke(build(), ["--config", str(self.config), *args], input=answer)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def ok(self, *args: str, answer: str | None = None) -> Outcome:
        outcome = self.call(*args, answer=answer)
        assert outcome.code == 0, outcome.said
        return outcome

    def work(self, *titles: str) -> Outcome:
        """Put these cards into Todo and run one round."""
        for title in titles:
            self.add(title)
        return self.call("--log-level", "error", "run-once", "tasks", "--wait", "2")

    # -- the board and its people

    def on_board(self, do: Any) -> Any:
        app = App.load(self.config)
        try:
            app.configure_logs(level="error")
            app.upgrade()
            stop = app.serve_local_boards()
            try:
                return do(app, app.reach("team"))
            finally:
                stop()
        finally:
            app.close()

    def add(self, title: str, status: str = "Todo") -> str:
        def make(_app: App, board: Any) -> str:
            values = {
                "Name": {"title": [{"text": {"content": title}}]},
                "Status": {"select": {"name": status}},
            }
            parent = {"type": "data_source_id", "data_source_id": board.key}
            return str(board.client.write("POST", "pages", {"parent": parent, "properties": values})["id"])

        made: str = self.on_board(make)
        return made

    def card(self, card_id: str) -> Card:
        found: Card = self.on_board(lambda _app, board: board.read(card_id))
        return found

    def claim_as(self, card_id: str, claimed_by: str, run_id: str) -> None:
        values = CardValues(status=CardStatus.in_progress, claimed_by=claimed_by, run_id=run_id)
        self.on_board(lambda _app, board: board.write(card_id, values))

    # -- the database

    def runs(self) -> dict[str, Run]:
        """The run of each card by the card's title."""
        app = App.load(self.config)
        try:
            with app.store.read() as uow:
                runs = [run for run in uow.runs.list(limit=100) if run.kind == "card"]
                titles = uow.survey.titles([run.object_id or "" for run in runs])
                return {titles[run.object_id or ""]: run for run in runs}
        finally:
            app.close()


class Rows:
    """Runs as workers would have left them."""

    def __init__(self, app: App) -> None:
        self.app = app

    def enqueue(self, key: str, function: str = "cli_tasks.work", **fields: Any) -> str:
        with self.app.store.write() as uow:
            return uow.runs.enqueue(NewRun(key, RunKind.function, function, {}, **fields))[0]

    def lease(self, run_id: str, owner: str = "w", length: timedelta = timedelta(minutes=1)) -> Lease:
        self.change(run_id, priority=-1.0)  # before all others
        with self.app.store.write() as uow:
            run = uow.runs.get(run_id)
            assert run is not None
            (leased,) = uow.leases.lease(owner, length, [run.function], 1)
        self.change(run_id, priority=0.0)
        assert leased.run.id == run_id
        return leased.lease

    def end(self, key: str, state: RunState, function: str = "cli_tasks.work", message: str = "it broke") -> str:
        run_id = self.enqueue(key, function)
        lease = self.lease(run_id)
        error = RunError("builtins:RuntimeError", message, "a trace") if state is RunState.failed else None
        with self.app.store.write() as uow:
            uow.endings.end(lease, state, result_json="1" if error is None else None, error=error)
        return run_id

    def await_event(self, key: str, name: str, instance: str, wait: timedelta | None) -> str:
        run_id = self.enqueue(key)
        lease = self.lease(run_id)
        step = NewStep(1, StepKind.event, name, args_json=instance, wait=wait)
        with self.app.store.write() as uow:
            uow.waits.open(
                lease,
                [NewWait(1, name, instance)],
                race=None,
                awaits=[1],
                reason=f"step 1 waits for event {name}, {instance}",
                pending=Pending(new=(step,)),
            )
        return run_id

    def change(self, run_id: str, **values: Any) -> None:
        with self.app.store.write() as uow:
            uow.connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**values))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("HERMES_CONFIG", raising=False)
    monkeypatch.delenv("HERMES_LOG_LEVEL", raising=False)
    handlers = list(logging.getLogger().handlers)
    yield Place(tmp_path)
    # Commands set logs up for their process: the next test has another stderr.
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def rows(place: Place) -> Iterator[Rows]:
    app = App.load(place.config)
    app.upgrade()
    yield Rows(app)
    app.close()


@pytest.fixture
def keys(place: Place) -> Callable[..., set[str]]:
    def listed(*options: str) -> set[str]:
        return {run["key"] for run in place.ok("runs", "list", "--json", *options).json["runs"]}

    return listed
