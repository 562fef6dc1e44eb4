"""`up` with an API: one process that serves it and wakes its own workers, or a process that serves it alone."""

from __future__ import annotations

import signal
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.testing.trial import eventually, free_port

PATIENCE = 120.0
Start = Callable[..., "subprocess.Popen[str]"]
EVENTS = """
from datetime import timedelta

from hermes.durable import Event, function, wait_for_event

NEWS = Event("UP_NEWS", int)


@function(name="up_events.wait")
async def wait(number: str) -> int:
    return await wait_for_event(NEWS, number, timeout=timedelta(hours=1))
"""


@pytest.fixture
def shop(place: Any) -> Any:
    (place.config / "up_events.py").write_text(EVENTS)
    (place.config / "polls" / "tasks.yaml").unlink()
    place.api_port = free_port()
    configure(place)
    made = place.ok("keys", "create", "tests", "--scope", "fire", "--scope", "runs:write", "--scope", "runs:read")
    key = made.out.splitlines()[0]
    place.http = httpx.Client(
        base_url=f"http://127.0.0.1:{place.api_port}/api/v1",
        headers={"Authorization": f"Bearer {key}"},
        timeout=PATIENCE,
        trust_env=False,
    )
    yield place
    place.http.close()


def configure(place: Any, **more: Any) -> None:
    settings = {"workers": {"slots": 2, "lease": "30s", "tick": "60s"}, "api": {"port": place.api_port}}
    place.write_hermes(functions=["up_events"], connections={}, boards={}, **{**settings, **more})


@pytest.fixture
def start(place: Any) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(*args: str) -> subprocess.Popen[str]:
        command = [str(Path(sysconfig.get_path("scripts")) / "hermes-poll"), "--config", str(place.config), *args]
        with (place.folder / "out").open("a") as out, (place.folder / "err").open("a") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def answers(place: Any) -> bool:
    try:
        return bool(place.http.get("/health").status_code == 200)
    except httpx.TransportError:
        return False


def state(place: Any, key: str) -> str:
    return str(place.http.get(f"/runs/{key}").json()["state"])


def test_up_serves_the_api_and_wakes_its_own_workers_at_once(shop: Any, start: Start) -> None:
    """A tick is a minute here: what is done within seconds was not found by looking."""
    process = start("up")
    eventually("it answers", lambda: answers(shop), PATIENCE)
    assert f"http://127.0.0.1:{shop.api_port}/api/v1" in eventually(
        "it says so", lambda: (shop.folder / "out").read_text(), PATIENCE
    )
    asked = {"function": "up_events.wait", "key": "w", "args": {"number": "1"}}
    assert shop.http.post("/runs", json=asked).status_code == 201
    eventually("it waits", lambda: state(shop, "w") == "waiting", 30)
    assert shop.http.post("/fire/UP_NEWS/1", json=7).json()["status"] == "delivered"
    eventually("it is done", lambda: state(shop, "w") == "succeeded", 30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in (shop.folder / "err").read_text()


def test_the_api_in_a_process_of_its_own(shop: Any, start: Start) -> None:
    configure(shop, workers={"slots": 2, "lease": "30s", "tick": "1s"})
    web, worker = start("up", "--role", "web"), start("up", "--role", "worker")
    eventually("it answers", lambda: answers(shop), PATIENCE)
    assert shop.http.post("/fire/UP_NEWS/1", json="x").status_code == 422, "it knows what events are declared"
    assert shop.http.post("/fire/UP_NEWS/1", json=7).json()["status"] == "kept"
    asked = {"function": "up_events.wait", "key": "w", "args": {"number": "1"}}
    assert shop.http.post("/runs", json=asked).status_code == 201
    eventually("it is done", lambda: state(shop, "w") == "succeeded", PATIENCE)
    for process in (web, worker):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_without_a_section_nothing_is_served_and_the_role_is_refused(shop: Any, start: Start) -> None:
    configure(shop, api=None)
    assert start("up", "--role", "web").wait(PATIENCE) == 2
    assert "`api:`" in (shop.folder / "err").read_text()
    process = start("up")
    eventually("it is up", lambda: "Hermes is up" in (shop.folder / "out").read_text(), PATIENCE)
    assert not answers(shop)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_port_that_another_program_holds_is_said(shop: Any, start: Start) -> None:
    with socket.create_server(("127.0.0.1", shop.api_port)):
        assert start("up").wait(PATIENCE) == 2
    assert f"port {shop.api_port} cannot be used for the API" in (shop.folder / "err").read_text()
    assert "Traceback" not in (shop.folder / "err").read_text()
