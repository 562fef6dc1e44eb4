"""What is wrong with the operator's files: every problem at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from hermes.errors import ConfigError

LONGEST = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake. Lines and columns count from 1, as editors do; 0 means the file as a whole."""

    file: str
    line: int
    column: int
    what: str

    def __post_init__(self) -> None:
        # It may quote the file, and a quoted text may hold anything: one line, nothing a terminal obeys, not endless.
        shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in self.what)
        object.__setattr__(self, "what", shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…")

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.what}"


class ConfigProblems(ConfigError):
    """All problems of a configuration, one a line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def allowed(values: Iterable[str]) -> str:
    return f"(allowed: {', '.join(values)})"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean ...?` or nothing."""
    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean `{by_folded[close[0]]}`?" if close else ""
