"""`hermes-poll board faults` and `board serve --faults`, against a board that is served."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from hermes.cli.commands import build
from hermes.testing.trial import eventually, free_port
from sources.board import BoardServer


@pytest.fixture
def faults(board: BoardServer) -> Callable[..., Result]:
    def call(*words: str, url: str = board.url) -> Result:
        return CliRunner().invoke(build(), ["board", "faults", *words, "--url", url])

    return call


def test_faults_are_set_listed_met_and_cleared(faults: Callable[..., Result], http: httpx.Client) -> None:
    done = faults("set", "conflict=5%", "rate_limited=460@3%", "unauthorized", "--skip", "1", "--seed", "9", "--json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert shown["plan"] == {"seed": 9, "conflict": 0.05, "rate_limited": {"rate": 0.03, "value": "460"}}
    [shot] = shown["pending"]
    assert (shot["name"], shot["skip"], shot["times"], shot["route"]) == ("unauthorized", 1, 1, "*")
    for wanted in ("conflict", "5.00%", "460", "unauthorized", "seed 9"):
        assert wanted in faults("list").stdout
    assert faults("set", "conflict=0%").exit_code == 0
    assert "conflict" not in httpx.get(f"{http.base_url}/_board/faults").json()["plan"]
    assert faults("clear").exit_code == 0
    assert "No faults" in faults("list").stdout
    http.get("/v1/users/me")
    assert faults("set", "bad_gateway", "bot_budget=600").exit_code == 0
    assert http.get("/v1/users/me").status_code == 502
    said = faults("ledger", "--reset").stdout
    for wanted in ("2 calls", "GET /v1/users/me", "bad_gateway", "502"):
        assert wanted in said
    assert json.loads(faults("ledger", "--json").stdout)["total"] == 0


def test_names_are_listed(faults: Callable[..., Result]) -> None:
    assert "workspace_limited" in faults("list", "--names").stdout
    assert {row["name"] for row in json.loads(faults("list", "--names", "--json").stdout)["names"]} > {"ghost"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["set", "confict"], 1, "did you mean conflict"),
        (["set", "hang=abc"], 1, "seconds"),
        (["set", "conflict=150%"], 2, "between 0% and 100%"),
        (["set", "conflict="], 2, "NAME=VALUE"),
        (["set", "trash_page=5%"], 1, "no rate"),
        (["set", "bot_budget=5%"], 2, "no rate"),
        (["set", "bot_budget=few"], 2, "a minute"),
    ],
)
def test_mistakes_are_explained(words: list[str], code: int, said: str, faults: Callable[..., Result]) -> None:
    done = faults(*words)
    assert done.exit_code == code
    assert said in " ".join(done.output.replace("│", " ").split())


def test_a_board_that_is_not_there_is_said(faults: Callable[..., Result]) -> None:
    done = faults("list", url=f"http://127.0.0.1:{free_port()}")
    assert done.exit_code == 3
    assert "board serve" in done.output
    assert faults("list", url="127.0.0.1:8450").exit_code == 2


def test_the_board_of_the_configuration_is_the_default(tmp_path: Path, board: BoardServer) -> None:
    port = int(board.url.rpartition(":")[2])
    (tmp_path / "polls").mkdir()
    for connections, code in (({"a": port}, 0), ({"a": port, "b": port + 1}, 3), ({}, 3)):
        made = {name: {"type": "local", "port": number} for name, number in connections.items()}
        (tmp_path / "hermes.yaml").write_text(json.dumps({"connections": made}))
        done = CliRunner().invoke(build(), ["--config", str(tmp_path), "board", "faults", "list"])
        assert done.exit_code == code, done.output


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    started: list[subprocess.Popen[str]] = []

    def serve(content: Any, *words: str) -> tuple[subprocess.Popen[str], str]:
        file, port = tmp_path / "faults.yaml", free_port()
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        code = "import sys; from hermes.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "board", "serve", "--data", str(tmp_path / "b.db")]
        command += ["--port", str(port), "--faults", str(file), *words]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True))
        return started[-1], f"http://127.0.0.1:{port}"

    yield serve
    for process in started:
        process.kill()
        process.communicate()


def test_a_board_starts_with_the_faults_of_a_file(served: Callable[..., Any]) -> None:
    given = {"plan": {"seed": 1, "conflict": 0.5}, "faults": [{"name": "bad_gateway", "times": 2}]}
    process, url = served(given, "--seed", "4")

    def answers() -> Any:
        assert process.poll() is None, process.stderr.read()
        try:
            return httpx.get(f"{url}/_board/faults", trust_env=False).json()
        except httpx.TransportError:
            return None

    shown = eventually("the board answers", answers)
    assert shown["plan"] == {"seed": 4, "conflict": 0.5}
    assert [fault["name"] for fault in shown["pending"]] == ["bad_gateway"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"plan": {"confict": 0.5}}, "did you mean conflict"),
        ({"rates": {}}, "plan:"),
        ("plan: [", "faults.yaml"),
        ({"faults": [{"name": "hang", "value": "x"}]}, "seconds"),
    ],
)
def test_a_file_that_cannot_be_used_is_explained(content: Any, said: str, served: Callable[..., Any]) -> None:
    process, _ = served(content)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert said in error
