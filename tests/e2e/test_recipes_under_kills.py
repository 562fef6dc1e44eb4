"""The recipes as real processes, of which one after the other is killed between two steps. What is judged stands in the
status API's own log, beside the instants at which Hermes had said that it would ask."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from hermes.app import App
from hermes.cli.commands import build
from hermes.model.run import Run, RunState
from hermes.model.step import Step, StepKind
from hermes.testing.nursery import Nursery, Started
from hermes.testing.status_api import Call, Fate, Plan, asked_at, read_log
from hermes.testing.trial import eventually, free_port

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
PLAN = Plan(seed=11, unavailable=0.15, never=0.25, lost=0.3, late=0.3, settles_after=4, late_by=3, sold_out="cars")
EVERY, LONGEST, DEADLINE = timedelta(seconds=0.5), timedelta(seconds=2), timedelta(seconds=12)
TIMES = {"every": "PT0.5S", "longest": "PT2S", "deadline": "PT12S"}
DEATHS = ("A8:3", "A9:2", "A12:4", "A10:3", "A7:4", "A11:6", "A14")
"""Where each worker dies; the one after them lives."""

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("crash")]


class Site:
    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._folder = folder
        self._nursery = nursery
        self._processes: list[Started] = []
        self.config = folder / "config"
        self.log = folder / "status.log"
        api_port, status_port = free_port(), free_port()
        self.status_url = f"http://127.0.0.1:{status_port}"
        self._api_url = f"http://127.0.0.1:{api_port}"
        self.config.mkdir(parents=True)
        (folder / "out").mkdir()
        for file in RECIPES.glob("*.py"):
            shutil.copy(file, self.config)
        content = {
            "functions": ["invoice_poll", "invoice_webhook", "trip_saga", "spending_approval"],
            "workers": {"slots": 4, "lease": "5s", "tick": "1s"},
            "api": {"port": api_port},
            "log": {"format": "json"},
        }
        (self.config / "hermes.yaml").write_text(json.dumps(content))
        self.call("db", "upgrade")
        key = self.call("keys", "create", "status", "--scope", "fire", "--json")["key"]
        fire = f"{self._api_url}/api/v1/fire/BATCH_SETTLED/{{receipt}}"
        plan = json.dumps(asdict(PLAN))
        arguments = [
            "--port",
            str(status_port),
            "--log",
            str(self.log),
            "--webhook",
            fire,
            "--token",
            key,
            "--plan",
            plan,
        ]
        self._status = subprocess.Popen([sys.executable, "-m", "hermes.testing.status_api", *arguments])

    def open(self) -> None:
        eventually("the status API answers", lambda: _answers(self.status_url))
        self.up("web")
        eventually("the API answers", lambda: _answers(f"{self._api_url}/api/v1/health"))

    def up(self, role: str, crash: str = "") -> Started:
        env = {"HERMES_CRASH_POINTS": crash, "BILLING_URL": self.status_url, "TRAVEL_URL": self.status_url}
        output = self._folder / "out" / f"{len(self._processes):02d}-{role}.log"
        process = self._nursery.start(role, "hermes", output, env, config=str(self.config), roles=[role])
        self._processes.append(process)
        return process

    def call(self, *args: str) -> Any:
        """The command line, as a person calls it."""
        result = CliRunner().invoke(build(), ["--config", str(self.config), *args])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in args else None

    def start(self, function: str, key: str, **args: Any) -> str:
        started = self.call("start", function, "--key", key, "--args", json.dumps(args), "--json")
        return str(started["run"])

    def look(self, run_id: str) -> tuple[Run, list[Step]]:
        app = App.load(self.config)
        try:
            with app.store.read() as unit:
                run = unit.runs.get(run_id)
                assert run is not None
                return run, list(unit.runs.steps(run_id))
        finally:
            app.close()

    def over(self) -> bool:
        states = {run["state"] for run in self.call("runs", "list", "--limit", "100", "--json")["runs"]}
        return not states & {"ready", "running", "waiting"}

    def calls(self) -> list[Call]:
        return read_log(self.log)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._status.kill()
        self._status.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    nursery = Nursery()
    site = Site(folder / "site", nursery)
    try:
        site.open()
        yield site
    finally:
        site.close()
        nursery.close()


def every_fate() -> dict[str, Fate]:
    """An invoice, by its number, for each of them."""
    found: dict[Fate, str] = {}
    for number in range(200):
        found.setdefault(PLAN.fate(f"invoice {number}"), str(number))
    assert len(found) == 6
    return {number: fate for fate, number in found.items()}


def test_the_recipes_keep_their_word_while_workers_die_between_steps(site: Site) -> None:
    fates = every_fate()
    polls = {
        number: site.start("invoice_poll.settle_invoice", f"poll-{number}", invoice=number, **TIMES) for number in fates
    }
    hinted = {
        f"9{number}": site.start("invoice_webhook.settle_by_webhook", f"hint-{number}", invoice=f"9{number}", **TIMES)
        for number in fates
    }
    trips = {number: site.start("trip_saga.book_trip", f"trip-{number}", trip=number) for number in ("1", "2")}
    spending = site.start("spending_approval.spend", "spend-1", request="1", amount=900)
    died = []
    for death in DEATHS:
        worker = site.up("worker", death)
        eventually(f"a worker dies at {death}", lambda worker=worker: not worker.alive or site.over(), 60, every=0.5)
        if not worker.alive:
            died.append(worker.wait())
        if death == DEATHS[3]:
            site.call("fire", "SPENDING_DECIDED", "1", "--json-payload", '{"approved": true, "by": "Ada"}')
    site.up("worker")
    eventually("every run is over", site.over, 120, every=0.5)

    assert died == [-signal.SIGKILL] * len(died)
    assert len(died) >= 5
    calls = site.calls()
    assert {call.status for call in calls if call.what == "ask"} >= {200, 503}
    parked = {run["id"]: run["reason"] for run in site.call("runs", "list", "--parked", "--json")["runs"]}
    for number, run_id in (polls | hinted).items():
        run, steps = site.look(run_id)
        fate = PLAN.fate(f"invoice {number}")
        assert_began_once(calls, f"invoice {number}")
        assert_asked_as_promised(calls, f"invoice {number}", steps)
        if fate.settles:
            assert (run.state, run.result) == (RunState.succeeded, f"invoice {number} is settled")
        else:
            assert run.state is RunState.parked
            assert parked.pop(run_id).startswith("no final answer: asked")
    assert parked == {}, "exactly those that nobody answered are listed"

    webhooks = [call for call in calls if call.what == "webhook"]
    assert {PLAN.fate(call.about).webhook for call in webhooks} == {"sent", "late"}
    assert {call.status for call in webhooks} == {202}
    for number, run_id in trips.items():
        run, _ = site.look(run_id)
        assert (run.state, run.reason) == (RunState.refused, f"Nothing is booked for trip {number}: cars are sold out.")
        released = [
            call.about for call in calls if call.what == "release" and call.changed and call.about.endswith(number)
        ]
        assert released == [f"hotels/{number}", f"flights/{number}"]
    run, _ = site.look(spending)
    assert str(run.result).startswith("Ada approved 1: batch")
    assert_began_once(calls, "spending 1")
    assert site.call("runs", "show", "spend-1", "--json")["run"]["id"] == spending


def assert_began_once(calls: list[Call], about: str) -> None:
    begins = [call for call in calls if call.what == "begin" and call.about == about]
    assert len([call for call in begins if call.changed]) == 1
    assert len({call.key for call in begins}) == 1


def assert_asked_as_promised(calls: list[Call], about: str, steps: list[Step]) -> None:
    """The instants were right, and before each of them nobody asked more than the asks before it explain."""
    at = asked_at(calls, about)
    deadline = next(step for step in steps if step.kind is StepKind.delay)
    waits = [step for step in steps if step.kind in (StepKind.delay, StepKind.event) and step is not deadline]
    asks = [step for step in steps if step.name.endswith("ask_batch")]
    assert len(asks) == len(waits)
    grown = EVERY
    for number, (wait, ask) in enumerate(zip(waits, asks, strict=True)):
        assert wait.started_at is not None
        assert wait.due_at is not None
        came = wait.kind is StepKind.event and wait.error is None
        assert wait.due_at == deadline.due_at or grown <= wait.due_at - wait.started_at <= 1.1 * grown
        due = wait.finished_at if came else wait.due_at
        assert due is not None
        explained = sum(step.attempts for step in asks[:number])
        assert len([moment for moment in at if moment < due.timestamp()]) <= explained, f"{about}: asked before {due}"
        assert ask.attempts >= 1
        grown = EVERY if came else min(grown * 2, LONGEST)
    assert len(at) <= sum(step.attempts for step in asks)
    assert len(asks) <= 3 + 2 * DEADLINE / LONGEST, "the cap"
