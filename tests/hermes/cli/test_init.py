from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hermes.cli.commands import build
from hermes.skeleton import skeleton


def call(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), list(args))
    return result.exit_code, result.output


def test_what_init_writes_loads(tmp_path: Path, place) -> None:
    folder = tmp_path / "mine" / "config"
    code, said = call("init", str(folder))
    assert code == 0
    assert "Next:" in said
    assert call("--config", str(folder), "validate")[0] == 0
    assert {"hermes.yaml", "polls", "schema"} <= {path.name for path in folder.iterdir()}


def test_the_notion_example_loads_with_a_token(tmp_path: Path, place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTION_TOKEN", "ntn_" + "x" * 40)
    monkeypatch.setenv("NOTION_BOARD", "0" * 32)
    monkeypatch.setenv("OPS_CHANNEL", "json://127.0.0.1")
    folder = tmp_path / "mine" / "config"
    assert call("init", str(folder), "--notion")[0] == 0
    code, said = call("--config", str(folder), "validate")
    assert code == 0, said


def test_nothing_is_overwritten_without_force(tmp_path: Path, place) -> None:
    folder = tmp_path / "mine"
    call("init", str(folder))
    (folder / "hermes.yaml").write_text("mine: true\n")
    code, said = call("init", str(folder))
    assert code == 1
    assert "hermes.yaml" in said
    assert (folder / "hermes.yaml").read_text() == "mine: true\n"
    assert call("init", str(folder), "--force")[0] == 0
    assert (folder / "hermes.yaml").read_text() != "mine: true\n"


@pytest.mark.parametrize("kind", ["local", "notion"])
def test_editors_find_the_schema_that_each_file_names(kind, tmp_path) -> None:
    for name, text in skeleton(kind).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    named = [
        (path.parent / path.read_text().splitlines()[0].partition("$schema=")[2])
        for path in tmp_path.rglob("*.yaml")
        if "$schema=" in path.read_text()
    ]
    assert len(named) >= 2
    assert all(path.is_file() for path in named), named
