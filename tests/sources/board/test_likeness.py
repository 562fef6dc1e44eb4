"""The board answers recorded requests as Notion did, and the tool that says so can also say no."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "likeness.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=HERE.parents[2])


def test_recorded_traffic_is_answered_alike() -> None:
    done = replay(str(HERE / "recordings"), "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"status": 404}, "status 404 became 200"),
        ({"response": {"object": "user", "extra": None}}, ".extra: missing"),
        ({"response": {"object": None}}, ".object: null became string"),
    ],
)
def test_an_answer_that_differs_is_found(tmp_path: Path, change: dict[str, Any], found: str) -> None:
    recording = json.loads((HERE / "recordings/ramnes-notion-sdk-py/test_users_retrieve.json").read_text())[:1]
    (tmp_path / "changed.json").write_text(json.dumps([{**recording[0], **change}]))
    done = replay(str(tmp_path), "--check")
    assert done.returncode == 1
    assert found in done.stdout


def shapes() -> Any:
    spec = importlib.util.spec_from_file_location("likeness_shape", HERE / "likeness_shape.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("recorded", "answered", "found"),
    [
        ({"a": 1}, {"a": 2.5}, []),
        ({"a": 1}, {"a": True}, [".a: number became boolean"]),
        ({"a": {"b": [1]}}, {"a": {"b": ["x"]}}, [".a.b[]: number became string"]),
        ({"a": [1, 2]}, {"a": [1]}, [".a: 2 items became 1"]),
        ({"a": 1}, {"b": 1}, [".a: missing", ".b: added"]),
        ([{"id": "r1", "x": 1}, {"id": "r2", "y": 1}], [{"id": "l2", "y": 1}, {"id": "l1", "x": 1}], []),
    ],
)
def test_shapes_part_where_keys_or_types_do(recorded: Any, answered: Any, found: list[str]) -> None:
    known = {"r1": "l1", "r2": "l2"}
    assert list(shapes().differences(recorded, answered, lambda text: known.get(text, text))) == found
