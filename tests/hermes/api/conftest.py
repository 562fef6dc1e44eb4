"""An installation whose API is served over real HTTP, and its functions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import inspect

from hermes.api.server import serve
from hermes.app import App
from hermes.durable.worker import Worker
from hermes.keys import create_key
from hermes.model.api_key import Scope
from hermes.model.run import Run
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.trial import free_port

FUNCTIONS = """
from datetime import timedelta

from pydantic import BaseModel, field_validator

from hermes.durable import Event, Refused, UnknownOutcome, command, function, wait_for_event


class Payment(BaseModel):
    amount: int
    note: str = ""

    @field_validator("note")
    @classmethod
    def _breaks(cls, value: str) -> str:
        if value == "break":
            raise KeyError("a validator with a bug")
        return value


PAID = Event("PAID", Payment)
MOVED = Event("MOVED")
SHORT = Event("SHORT", ttl=timedelta(minutes=5))


@command(effect="naive")
def tell_the_bank() -> str:
    raise UnknownOutcome("no answer from the bank")


@function(name="api_tasks.pay")
async def pay(order: str, most: int = 3) -> int:
    paid = await wait_for_event(PAID, order, timeout=timedelta(days=most))
    return paid.amount


@function(name="api_tasks.watch")
async def watch(order: str) -> str:
    await wait_for_event("ANY", order, forever=True, type=object)
    return "seen"


@function(name="api_tasks.fail")
async def fail(text: str) -> str:
    raise RuntimeError(text)


@function(name="api_tasks.doubt")
async def doubt() -> str:
    return await tell_the_bank()
"""


class Served:
    """One process's API, and a worker that is only ticked."""

    def __init__(self, folder: Path, url: str, clock: FakeClock) -> None:
        self.folder = folder
        self.clock = clock
        self.port = free_port()
        config = folder / "config"
        (config / "polls").mkdir(parents=True, exist_ok=True)
        (config / "api_tasks.py").write_text(FUNCTIONS)
        content = {
            "functions": ["api_tasks"],
            "database": url,
            "api": {"port": self.port, "max_body_bytes": 10_000, "hosts": ["hermes.example"]},
        }
        (config / "hermes.yaml").write_text(json.dumps(content))
        self.app = App.load(config, clock=clock)
        assert self.app.configuration.api is not None
        self._stop = serve(self.app, self.app.configuration.api)
        self.worker: Worker = self.app.worker()
        self.root = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=f"{self.root}/api/v1", timeout=60, trust_env=False)

    def key(self, *scopes: str, name: str = "tests", namespace: str = "default") -> str:
        wanted = scopes or ("fire", "runs:read", "runs:write")
        return create_key(self.app, name, namespace=namespace, scopes=[Scope(scope) for scope in wanted])[1]

    def ask(self, method: str, path: str, key: str | None = None, body: Any = ..., **more: Any) -> httpx.Response:
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
        if body is not ...:
            more["content"] = body if isinstance(body, (bytes, str)) else json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        return self.http.request(method, path, headers=headers, **more)

    def start(self, key: str, run: str = "order-42", function: str = "api_tasks.pay", **args: Any) -> httpx.Response:
        return self.ask("POST", "/runs", key, {"function": function, "key": run, "args": args or {"order": "42"}})

    def now(self) -> datetime:
        """The database's."""
        with self.app.store.read() as unit:
            return unit.now

    def work(self) -> None:
        self.worker.run_due()

    def run(self, run_id: str) -> Run:
        with self.app.store.read() as unit:
            found = unit.runs.get(run_id)
        assert found is not None
        return found

    def events(self, **wanted: Any) -> list[Any]:
        with self.app.store.read() as unit:
            return unit.events.find(limit=5_000, **wanted)

    def tables(self) -> list[str]:
        return list(inspect(self.app.store.engine).get_table_names())

    def stop(self) -> None:
        self._stop()
        self._stop = lambda: None

    def close(self) -> None:
        self.http.close()
        self.stop()
        self.worker.close()
        self.app.close()


@pytest.fixture
def served(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    served = Served(tmp_path, databases.url(), FakeClock())
    yield served
    served.close()


@pytest.fixture
def key(served: Served) -> str:
    """For everything but debugging, in the namespace `default`."""
    return served.key()
