"""What stands in `config/` works as it is, and its schemas are those of the models."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermes.app import models
from hermes.config import load
from hermes.config.schemas import schema_for_hermes, schema_for_polls

CONFIG = Path(__file__).parents[3] / "config"
ENVIRON = {"NOTION_TOKEN": "ntn_for-a-test", "NOTION_BOARD": "https://notion.so/x", "OPS_CHANNEL": "json://localhost/x"}


@pytest.fixture(
    params=[CONFIG, *sorted(path.parent for path in CONFIG.glob("examples/*/hermes.yaml"))], ids=lambda p: p.name
)
def shipped(request, monkeypatch):
    # Each folder has a module of functions of its own, by the same name.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "team_tasks", raising=False)
    return request.param


def test_it_loads_without_a_problem(shipped):
    environ = {} if shipped == CONFIG else ENVIRON
    configuration = load(shipped, models(), environ=environ)
    assert configuration.polls
    assert all(poll.board in configuration.boards for poll in configuration.polls.values())


def test_every_file_names_its_schema(shipped):
    for path in [shipped / "hermes.yaml", *shipped.glob("polls/*.yaml")]:
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        kind = "poll" if path.parent.name == "polls" else "hermes"
        assert (path.parent / first.partition("=")[2]).resolve() == (CONFIG / f"schema/{kind}.json").resolve()


@pytest.mark.parametrize(("name", "make"), [("poll", schema_for_polls), ("hermes", schema_for_hermes)])
def test_the_schemas_are_those_of_the_models(name, make):
    written = json.loads((CONFIG / f"schema/{name}.json").read_text())
    assert written == make(models()), "write them again: hermes.config.schemas.write_schemas(Path('config'), models())"
