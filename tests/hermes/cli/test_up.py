"""`up` as a process: started, stopped, killed, as an operator or a supervisor does it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.trial import eventually
from sources.board.server import is_served

PATIENCE = 120.0
"""Seconds: a machine that is busy with other tests starts a process slowly."""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(place) -> Iterator[Start]:
    """Start `hermes-poll ...`, its output into files beside the configuration."""
    started: list[subprocess.Popen[str]] = []

    def begin(*args: str) -> subprocess.Popen[str]:
        command = [str(Path(sysconfig.get_path("scripts")) / "hermes-poll"), "--config", str(place.config), *args]
        with (place.folder / "out").open("a") as out, (place.folder / "err").open("a") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, text=True, cwd=place.folder
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def lingering(place: Any) -> Path:
    """Every card's run works until this file is there."""
    gate: Path = place.folder / "gate"
    action = {"type": "function", "function": "cli_tasks.linger", "args": {"path": str(gate)}}
    place.write_poll("tasks", schedule={"every": "1s"}, action=action)
    return gate


def out(place: Any) -> str:
    return (place.folder / "out").read_text()


def err(place: Any) -> str:
    return (place.folder / "err").read_text()


def states(place: Any) -> list[str]:
    """Read as a stranger would, so that watching costs the processes nothing."""
    try:
        with closing(sqlite3.connect(f"file:{place.folder / 'data' / 'hermes.db'}?mode=ro", uri=True)) as connection:
            return [state for (state,) in connection.execute("SELECT state FROM runs")]
    except sqlite3.OperationalError:
        return []  # not made yet


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_where_things_are_works_cards_and_drains(place, start, number) -> None:
    place.write_poll("tasks", schedule={"every": "1s"})
    place.add("good")
    process = start("up")
    eventually("it is up", lambda: "NEXT" in out(place), PATIENCE)
    assert f"http://127.0.0.1:{place.port}/boards/" in out(place)
    assert "hermes.db" in out(place)
    assert "tasks" in out(place)
    eventually("the card is done", lambda: states(place) == ["succeeded"], PATIENCE)
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0
    assert "stopped" in err(place)


def test_a_stop_in_the_middle_leaves_nothing_in_progress(place, start) -> None:
    """SCENARIOS W6."""
    gate = lingering(place)
    card_id = place.add("long")
    process = start("up")
    eventually("it runs", lambda: states(place) == ["running"], PATIENCE)
    process.send_signal(signal.SIGTERM)
    eventually("it drains", lambda: "draining" in err(place), PATIENCE)
    gate.touch()
    assert process.wait(PATIENCE) == 0
    assert states(place) == ["succeeded"]
    assert place.card(card_id).status_name == "Complete"


def test_a_second_signal_ends_it_at_once(place, start) -> None:
    lingering(place)
    place.add("hangs")
    process = start("up")
    eventually("it runs", lambda: states(place) == ["running"], PATIENCE)
    process.send_signal(signal.SIGTERM)
    eventually("it drains", lambda: "draining" in err(place), PATIENCE)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM


def test_roles_in_processes_of_their_own(place, start) -> None:
    place.write_poll("tasks", schedule={"every": "1s"})
    place.add("good")
    processes = [start("up", "--role", "board")]
    eventually("the board is served", lambda: "local board" in out(place), PATIENCE)
    processes += [start("up", "--role", "scheduler"), start("up", "--role", "worker")]
    eventually("the card is done", lambda: "succeeded" in states(place), PATIENCE)
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert start("up", "--role", "cook").wait(PATIENCE) == 2


def test_a_port_that_another_program_holds_is_said(place, start) -> None:
    import socket

    with socket.create_server(("127.0.0.1", place.port)):
        assert start("up").wait(PATIENCE) == 2
    assert f"port {place.port} cannot be used" in err(place)
    assert "Traceback" not in err(place)


def test_a_board_served_by_itself_needs_no_configuration(place, start) -> None:
    process = start("board", "serve", "--data", str(place.folder / "alone.db"), "--port", str(place.port))
    eventually("it is served", lambda: is_served(f"http://127.0.0.1:{place.port}"), PATIENCE)
    second = start("board", "serve", "--data", str(place.folder / "other.db"), "--port", str(place.port))
    assert second.wait(PATIENCE) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in err(place)


def test_the_board_of_a_connection_is_the_one_that_up_serves(place, start) -> None:
    place.add("made before")
    process = start("board", "serve")
    eventually("it is served", lambda: is_served(f"http://127.0.0.1:{place.port}"), PATIENCE)
    assert place.on_board(lambda _app, board: [card.title for card in board.open_cards()]) == ["made before"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


UNNOTICED = """
import os, signal
from hermes.cli.up import signals
with signals() as stop:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # another thread of the process gets it
    os.kill(os.getpid(), signal.SIGTERM)
    raise SystemExit(0 if stop.wait(20) else 1)
"""


def test_a_signal_that_does_not_interrupt_the_waiting_main_thread_still_stops_it() -> None:
    """It may come just before the main thread begins to wait."""
    assert subprocess.run([sys.executable, "-c", UNNOTICED], timeout=60).returncode == 0
