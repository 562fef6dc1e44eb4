"""The claim protocol, explored: `python tests/model/explore.py --all`.

--list          the cases: rules, limits, large
--case NAME     those whose name contains NAME
--trace         the shortest way to what breaks
--all           everything, a table; exit code 1 when something is not as it should be
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claim_model.cases import LARGE, LIMITS, PROPERTIES, RULES, judged
from claim_model.search import Found, explore
from claim_model.settings import Settings


@dataclass(frozen=True)
class Case:
    name: str
    settings: Settings
    breaks: str | None
    """The property that must break; None: all must hold."""

    def run(self, quiet: bool) -> Found:
        wanted = judged(self.settings) if self.breaks is None else frozenset({self.breaks})
        return explore(
            self.settings,
            until=wanted,
            ignoring=frozenset(PROPERTIES) - wanted,
            live="LIVE" in wanted,
            progress=None if quiet else _progress,
        )

    def wrong(self, found: Found) -> bool:
        if self.breaks is None:
            return bool(found.broken) or not found.complete
        return self.breaks not in found.broken


def cases() -> Iterator[Case]:
    worlds: dict[Settings, list[str]] = {}
    for rule in RULES:
        worlds.setdefault(rule.world, []).append(rule.name)
    for world, names in worlds.items():
        yield Case(f"with: {'; '.join(names)}", world, None)
    for rule in RULES:
        yield Case(f"without: {rule.name}", rule.without(), rule.breaks)
    for limit in LIMITS:
        yield Case(f"limit: {limit.name}", limit.world, limit.breaks)
    for name, settings in LARGE.items():
        yield Case(f"large: {name}", settings, None)


def _progress(states: int, seconds: float) -> None:
    print(f"\r{states:,} states, {seconds:.0f} s", end="\r", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--case")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    chosen = [case for case in cases() if asked.case is None or asked.case in case.name]
    if asked.list or not (asked.all or asked.case):
        print("\n".join(case.name for case in chosen))
        return 0
    wrong, states, seconds = 0, 0, 0.0
    print("| case | states | seconds | result |\n|---|---:|---:|---|")
    for case in chosen:
        found = case.run(quiet=not sys.stderr.isatty())
        states, seconds = states + found.states, seconds + found.seconds
        said = ", ".join(f"{name} breaks in {len(way)} steps" for name, way in found.broken.items()) or "holds"
        if case.wrong(found):
            wrong, said = wrong + 1, f"**WRONG**: {said}"
        print(f"| {case.name} | {found.states:,} | {found.seconds:.1f} | {said} |", flush=True)
        if asked.trace or case.wrong(found):
            for name, way in found.broken.items():
                print(f"\n{name}: {PROPERTIES[name]}\n", *way, sep="\n    ", end="\n\n")
    print(f"\n{states:,} states in {len(chosen)} cases, {seconds:.0f} s; {wrong} not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
