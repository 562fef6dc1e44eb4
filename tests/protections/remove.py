"""Takes each protection out of a copy of the code and runs the test that is there for it: the test must fail.

    python tests/protections/remove.py                  all of them, two at a time
    python tests/protections/remove.py W5 N3            those whose name begins so
    python tests/protections/remove.py durable_table    those of one table

A protection that can be removed without a test noticing is reported and makes the exit code 1. A test that fails
without any removal proves nothing, so each is run untouched first.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("hermes", "sources", "evaluators", "store", "tests", "config", "pyproject.toml")


@dataclass(frozen=True)
class Protection:
    name: str
    """Row of the scenario or failure list, and what protects."""
    file: str
    old: str
    """Stands exactly once in the file."""
    new: str
    test: str
    """pytest node id."""
    table: str = ""
    """Where it stands."""

    def is_meant_by(self, wanted: str) -> bool:
        return self.name.startswith(wanted) or self.table == wanted


def table() -> list[Protection]:
    rows: list[Protection] = []
    for path in sorted(Path(__file__).parent.glob("*table.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        rows += [Protection(*row, table=path.stem) for row in module.TABLE]
    return rows


def copy_of_the_code(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
        elif source.exists():
            shutil.copy(source, folder / name)


def run(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", test],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def verdict(protection: Protection) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_of_the_code(folder)
        file = folder / protection.file
        text = file.read_text(encoding="utf-8")
        if text.count(protection.old) != 1:
            return False, f"stands {text.count(protection.old)} times in {protection.file}: the table is out of date"
        before = run(folder, protection.test)
        if before.returncode != 0:
            return False, f"fails untouched (exit {before.returncode}): {before.stdout.strip().splitlines()[-1:]}"
        file.write_text(text.replace(protection.old, protection.new), encoding="utf-8")
        try:
            after = run(folder, protection.test)
        except subprocess.TimeoutExpired:
            return True, "found (hangs without it)"
        if after.returncode == 1:
            return True, "found"
        return False, f"NOT FOUND (exit {after.returncode})"


def main(wanted: list[str]) -> int:
    chosen = [row for row in table() if not wanted or any(map(row.is_meant_by, wanted))]
    missed = 0
    with ThreadPoolExecutor(2) as pool:
        for protection, (found, words) in zip(chosen, pool.map(verdict, chosen), strict=True):
            missed += not found
            print(f"{'ok  ' if found else 'FAIL'} {protection.name:60} {words}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} removed protections were found by their tests")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
