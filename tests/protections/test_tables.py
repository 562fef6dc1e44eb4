"""A row that no longer stands in the code protects nothing: `remove.py` would only say so hours later."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import remove


def test_what_each_row_takes_out_stands_once_in_the_code() -> None:
    gone = [row.name for row in remove.table() if (remove.ROOT / row.file).read_text("utf-8").count(row.old) != 1]
    assert gone == []


def test_the_test_of_each_row_exists() -> None:
    missing = []
    for row in remove.table():
        path, _, name = row.test.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        if f"def {function}(" not in (remove.ROOT / path).read_text("utf-8") and function:
            missing.append(row.name)
    assert missing == []
