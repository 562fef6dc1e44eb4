"""The README's "Notion in five minutes", step by step, with a board on this machine in Notion's place."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.demo.processes import hermes_poll
from sources.board.server import BoardServer, running

LONGEST_SECONDS = 120


class Steps:
    """A person in a folder of their own, who has set the two variables."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = {**os.environ, **environ}

    def run(self, *words: str, says: str = "", answer: str = "") -> str:
        done = subprocess.run(
            [hermes_poll(), *words],
            cwd=self.folder,
            env=self.environ,
            input=answer,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )
        assert done.returncode == 0, f"hermes-poll {' '.join(words)}: {done.stdout}\n{done.stderr}"
        assert says in done.stdout
        return done.stdout

    def change(self, name: str, before: str, after: str) -> None:
        path = self.folder / "config" / name
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BoardServer]:
    with running(tmp_path / "notion.db") as server:
        yield server


@pytest.fixture
def notion(server: BoardServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.token}", "Notion-Version": "2026-03-11"}
    with httpx.Client(base_url=f"{server.url}/v1/", headers=headers, trust_env=False) as client:
        yield client


def made(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def test_from_a_plain_database_to_a_complete_card(server: BoardServer, notion: httpx.Client, tmp_path: Path) -> None:
    options = {"select": {"options": [{"name": "Todo"}, {"name": "Ideas"}]}}
    database = made(
        notion.post(
            "databases",
            json={
                "parent": {"type": "page_id", "page_id": server.root_page_id},
                "title": [{"text": {"content": "Our work"}}],
                "initial_data_source": {"properties": {"Task": {"title": {}}, "Status": options}},
            },
        )
    )
    folder = tmp_path / "mine"
    folder.mkdir()
    steps = Steps(folder, {"NOTION_TOKEN": server.token, "NOTION_BOARD": database["url"]})

    steps.run("init", "--notion")
    # What a real board does not need: this one is elsewhere, and the test does not sleep for a minute.
    steps.change("hermes.yaml", 'token: "${NOTION_TOKEN}"', f'token: "${{NOTION_TOKEN}}", base_url: "{server.url}"')
    steps.change("team_tasks.py", "timedelta(minutes=1)", "timedelta(seconds=1)")
    steps.run("board", "init", says="column 'LastError' (text)", answer="y\n")
    steps.run("validate", says="Nothing is wrong")
    steps.run("doctor", says="Our work")

    source = made(notion.get(f"databases/{database['id']}"))["data_sources"][0]["id"]
    page = made(
        notion.post(
            "pages",
            json={
                "parent": {"type": "data_source_id", "data_source_id": source},
                "properties": {
                    "Task": {"title": [{"text": {"content": "Release notes"}}]},
                    "Status": {"select": {"name": "Todo"}},
                    "Priority": {"select": {"name": "High"}},
                },
                "children": [{"paragraph": {"rich_text": [{"text": {"content": "What changed since May?"}}]}}],
            },
        )
    )
    with subprocess.Popen(
        [hermes_poll(), "up"],
        cwd=folder,
        env=steps.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as up:
        assert up.stdout is not None
        try:
            assert any("Hermes is up" in line for line in up.stdout)  # reads on until it says so
            steps.run("polls", "run", "notion-tasks", "--wait", "60")
            properties = until_ended(notion, page["id"])
        finally:
            up.send_signal(signal.SIGTERM)
    assert up.returncode == 0
    assert properties["Status"]["select"]["name"] == "Complete"
    assert "Draft: What changed since May?" in made(notion.get(f"pages/{page['id']}/markdown"))["markdown"]
    steps.run("runs", "show", "Release notes", says="succeeded")


def until_ended(notion: httpx.Client, page_id: str) -> dict[str, Any]:
    """Asks the board, which is all that a person would see."""
    ends = time.monotonic() + LONGEST_SECONDS
    while True:
        properties: dict[str, Any] = made(notion.get(f"pages/{page_id}"))["properties"]
        if properties["Status"]["select"]["name"] in ("Complete", "Failed"):
            return properties
        assert time.monotonic() < ends, properties
        time.sleep(0.2)
