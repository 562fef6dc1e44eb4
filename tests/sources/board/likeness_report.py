"""Writes what a replay found as a page of Markdown."""

from __future__ import annotations

from typing import Any


def write_report(result: Any) -> str:
    lines = ["| Route | Answers | Status same | Error code same | Shape same |", "|---|---|---|---|---|"]
    for label, t in sorted(result.routes.items()):
        code = f"{t.same_code} of {t.errors}" if t.errors else "-"
        lines.append(
            f"| `{label}` | {t.compared} | {t.same_status} | {code} | {t.same_shape} ({t.same_shape / t.compared:.1%}) |"
        )
    return "\n".join(lines) + "\n"
