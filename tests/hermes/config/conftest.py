"""A configuration folder that a test writes, and small models in place of the real connections and actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from evaluators.filter import CelCompiler
from hermes.config import ConfigProblems, Configuration, Models, load, read


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TrackerConnection(Strict):
    type: Literal["tracker"]
    token: SecretStr
    base_url: str | None = None


class TrackerBoard(Strict):
    connection: str
    board: str
    mode: Literal["exclusive", "shared"] = "exclusive"


class FunctionAction(Strict):
    type: Literal["function"]
    function: str
    args: dict[str, Any] = {}


class NotifyAction(Strict):
    type: Literal["notify"]
    title: str
    targets: list[SecretStr] = []


HERMES = """\
timezone: Europe/Berlin
connections:
  main: {type: tracker, token: "${TRACKER_TOKEN}"}
boards:
  team: {connection: main, board: B1}
"""
POLL = """\
poll: tasks
source: {type: board, board: team}
schedule: {every: 10m}
action: {type: function, function: work}
"""


class Folder:
    def __init__(self, root: Path) -> None:
        self.path = root / "config"
        (self.path / "polls").mkdir(parents=True)
        self.environ = {"TRACKER_TOKEN": "a-long-tracker-token"}
        self.models = Models(
            connections={"tracker": TrackerConnection},
            boards={"tracker": TrackerBoard},
            actions={"function": FunctionAction, "notify": NotifyAction},
            filters=CelCompiler(),
        )
        self.write("hermes.yaml", HERMES)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def poll(self, text: str, name: str = "tasks") -> Path:
        return self.write(f"polls/{name}.yaml", text)

    def load(self) -> Configuration:
        return load(self.path, self.models, environ=self.environ)

    def problems(self) -> list[str]:
        return [str(problem) for problem in read(self.path, self.models, environ=self.environ).problems]

    def problem(self) -> str:
        """The only one."""
        with pytest.raises(ConfigProblems) as caught:
            self.load()
        lines = str(caught.value).splitlines()
        assert len(lines) == 1, lines
        return lines[0]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def poll_text() -> str:
    return POLL
