"""Whether the demo came out as it must: the board, the runs and the office's own log, compared with the scenario."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.demo.board import SeenCard
from hermes.demo.scenario import CARDS, EXPECTED, LONG_TEXT, DemoCard
from hermes.model.run import Run


@dataclass(frozen=True, slots=True)
class Office:
    """The office's log, read from its file."""

    entries: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, log: Path) -> Office:
        if not log.exists():
            return cls(())
        return cls(tuple(json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()))

    @property
    def effects(self) -> list[Mapping[str, Any]]:
        return [entry for entry in self.entries if entry["effect"]]

    def of_run(self, run_id: str) -> int:
        """Effects whose key belongs to that run."""
        return sum(str(entry["key"]).startswith(run_id) for entry in self.effects)


def settled(cards: Sequence[SeenCard]) -> bool:
    """Every card that must end somewhere stands in a status that Hermes leaves cards in."""
    by_title = {card.title: card for card in cards}
    wanted = [card.title for card in CARDS if card.ends is not None]
    return all(title in by_title and by_title[title].status in ("Complete", "Failed") for title in wanted)


def problems(cards: Sequence[SeenCard], runs: Sequence[Run], office: Office, page: Callable[[str], str]) -> list[str]:
    """Everything that is not as it must be, in plain words. `page` reads the text of a card's page."""
    by_title = {card.title: card for card in cards}
    found: list[str] = []
    for expected in CARDS:
        seen = by_title.get(expected.title)
        if seen is None:
            found.append(f"{expected.title!r} is not on the board")
            continue
        own = [run for run in runs if run.object_id == seen.id]
        found.extend(f"{expected.title!r} {words}" for words in _card(expected, seen, own))
        if expected.long:
            found.extend(f"{expected.title!r} {words}" for words in _long(own, page(seen.id)))
    return found + _effects(office)


def _card(expected: DemoCard, seen: SeenCard, runs: Sequence[Run]) -> list[str]:
    if expected.ends is None:
        touched = seen.status != expected.status or seen.run_id or seen.claimed_by or runs
        return [f"was touched: {seen.status}, run {seen.run_id or 'none'}"] if touched else []
    found = []
    if seen.status != expected.ends:
        found.append(f"is {seen.status} and not {expected.ends} ({seen.last_error or 'no error'})")
    if expected.error not in seen.last_error or (not expected.error and seen.last_error):
        found.append(f"shows the error {seen.last_error!r} and not {expected.error!r}")
    if expected.retried and seen.retry_count < 1:
        found.append("was never retried")
    if len(runs) != 1 or runs[0].id != seen.run_id:
        found.append(f"has {len(runs)} runs, and shows {seen.run_id or 'none'}: expected one and the same")
    return found


def _long(runs: Sequence[Run], page: str) -> list[str]:
    text = str(runs[0].result) if runs else ""
    if len(text) < LONG_TEXT:
        return [f"has a result of {len(text):,} characters, expected at least {LONG_TEXT:,}"]
    if _letters(text) not in _letters(page):
        return [f"does not hold its whole text of {len(text):,} characters: its page has {len(page):,}"]
    return []


def _letters(text: str) -> str:
    """Pages keep paragraphs, not the blank lines between them."""
    return "".join(text.split())


def _effects(office: Office) -> list[str]:
    keys = Counter(str(entry["key"]) for entry in office.effects)
    subjects = Counter(str(entry["subject"]) for entry in office.effects)
    found = [f"the key {key} took effect {count} times" for key, count in keys.items() if count > 1]
    wanted = {subject for card in CARDS for subject in card.effects}
    found += [
        f"{subject!r} took effect {subjects[subject]} times" for subject in sorted(wanted) if subjects[subject] != 1
    ]
    found += [f"nobody asked for {subject!r}, which took effect" for subject in sorted(subjects.keys() - wanted)]
    return found


def met(card: SeenCard) -> bool:
    """For the table: it stands where the scenario wants it."""
    expected = EXPECTED.get(card.title)
    return expected is not None and card.status == (expected.ends or expected.status)
