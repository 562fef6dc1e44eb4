"""Tables of figures: as text, and as the rows of a JSON file."""

from __future__ import annotations

from collections.abc import Sequence


class Table:
    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.title = title
        self.columns = list(columns)
        self.rows: list[list[str]] = []

    def add(self, *cells: str) -> None:
        self.rows.append(list(cells))

    def text(self) -> str:
        """Markdown, so that it can go into a page as it is."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [self.columns, ["-" * width for width in widths], *self.rows]
        drawn = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        return "\n".join([f"**{self.title}**", "", *drawn])

    def json(self) -> dict[str, object]:
        return {"title": self.title, "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows]}


def spread(figures: Sequence[float]) -> str:
    return f"{min(figures):.0f}-{max(figures):.0f}"


def ratio(ours: float | None, theirs: float) -> str:
    return f"{ours / theirs:.1f}x" if ours is not None and theirs > 0 else ""
