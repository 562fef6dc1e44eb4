"""The configuration that `init` writes: the project's own config/ folder, which travels inside the package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_SKIPPED = ("__pycache__", "examples", "schema")


def skeleton(kind: str) -> Mapping[str, str]:
    """`local` or `notion`: text of each file by its path below the configuration folder."""
    root = _root()
    chosen = root / "examples" / kind if kind != "local" else root
    # An example stands two folders deeper than what is made of it, and its editors' schemas with it.
    found = {name: text.replace("$schema=../../", "$schema=", 1) for name, text in _texts(chosen, "")}
    found |= {f"schema/{name}": text for name, text in _texts(root / "schema", "")}
    return found


def _root() -> Traversable:
    packaged = files("hermes") / "config_skeleton"
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parent.parent / "config"  # a checkout


def _texts(folder: Traversable, below: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name in _SKIPPED or entry.name.startswith("."):
            continue
        if entry.is_dir():
            found += _texts(entry, f"{below}{entry.name}/")
        elif entry.name.endswith((".yaml", ".py", ".json")):
            found.append((f"{below}{entry.name}", entry.read_text(encoding="utf-8")))
    return found
