"""`hermes-poll demo`, as a newcomer runs it: the command itself, its processes, and the office's log beside them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes.demo.processes import hermes_poll

pytestmark = pytest.mark.xdist_group("demo")  # one demo for all of them, also on several cores
LONGEST_SECONDS = 150
"""For one demo on a machine that is busy with other tests. The demo itself allows the cards a minute."""


def two_free_ports() -> int:
    """The first of two neighbours, below the range that the kernel hands out by itself."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000, 2):
        if all(is_free(candidate) for candidate in (port, port + 1)):
            return port
    raise AssertionError("no two free ports in a row")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def command(data: Path, port: int, *more: str) -> list[str]:
    return [hermes_poll(), "demo", "--data", str(data), "--port", str(port), *more]


def demo(data: Path, port: int, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(data, port, *more), cwd=data.parent, capture_output=True, text=True, timeout=LONGEST_SECONDS
    )


def office_log(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / "office.jsonl").read_text(encoding="utf-8").splitlines()]


def logs(data: Path) -> str:
    return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted((data / "logs").glob("*.log")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo-data"


@pytest.fixture(scope="module")
def port() -> int:
    return two_free_ports()


@pytest.fixture(scope="module")
def first(data: Path, port: int) -> dict[str, Any]:
    done = demo(data, port, "--json")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs(data)}"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_every_card_ends_where_it_belongs_within_a_minute(first: dict[str, Any]) -> None:
    assert first["ok"]
    assert first["problems"] == []
    assert first["seconds"] <= 60
    assert Counter(card["status"] for card in first["cards"]) == {
        "Complete": 8,  # one of them was done before
        "Failed": 1,
        "Todo": 1,
        "InProgress": 1,
        "Cancelled": 1,
    }


def test_one_card_is_retried_and_complete_and_one_is_failed_with_its_reason(first: dict[str, Any]) -> None:
    cards = {card["title"].partition(" for ")[0]: card for card in first["cards"]}
    retried, refused = cards["Invoice 1002"], cards["Invoice 1003"]
    assert (retried["status"], retried["retry_count"], retried["last_error"]) == ("Complete", 1, "")
    assert retried["run"]["deliveries"] == 2
    assert refused["status"] == "Failed"
    assert refused["last_error"] == "The office refuses: customer 4711 has closed their account."


def test_the_offices_own_log_has_one_effect_a_key_and_a_subject(first: dict[str, Any], data: Path) -> None:
    effects = [entry for entry in office_log(data) if entry["effect"]]
    assert len(effects) == first["effects"]["all"] == 8
    assert set(Counter(entry["key"] for entry in effects).values()) == {1}
    assert set(Counter(entry["subject"] for entry in effects).values()) == {1}


def test_the_office_did_fail(first: dict[str, Any], data: Path) -> None:
    entries = office_log(data)
    assert [entry["status"] for entry in entries if entry["subject"] == "Invoice 1002"] == [503, 503, 201]
    assert [entry["heard"] for entry in entries if entry["subject"] == "Invoice 1005"] == [False, True]


def test_again_in_the_same_folder_runs_nothing_twice_and_says_so(first: dict[str, Any], data: Path, port: int) -> None:
    before = (data / "office.jsonl").read_bytes()
    done = demo(data, port)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs(data)}"
    assert "0 effects came to the 8 from before" in done.stdout
    assert "exactly one effect a key" in done.stdout
    assert (data / "office.jsonl").read_bytes() == before
    for card in first["cards"]:
        if card["run"] is not None:
            assert card["run"]["id"] in done.stdout


def test_a_demo_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    data, port = tmp_path / "demo-data", two_free_ports()
    with subprocess.Popen(command(data, port), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "-> InProgress" in line:
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
    assert process.returncode == 130, logs(data)
    assert is_free(port)
    assert is_free(port + 1)
    done = demo(data, port, "--json")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs(data)}"


def test_a_port_in_use_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = demo(tmp_path / "demo-data", port)
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stdout + done.stderr
    assert not (tmp_path / "demo-data").exists()


def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    done = demo(mine, two_free_ports(), "--fresh")
    assert done.returncode == 2
    assert (mine / "thesis.txt").read_text() == "years of work"
