"""What a card costs when nothing fails, counted by the board."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

from storm import FUNCTIONS, say

from hermes.testing.nursery import Nursery
from hermes.testing.trial import EXCLUSIVE, Trial, eventually


def count_calls(folder: Path, nursery: Nursery) -> list[str]:
    """Nothing fails: what does a card cost?"""
    say("Calls a card on the fault-free path, counted by the board")
    found: list[str] = []
    bare: dict[str, Any] = {"read_body": False, "write_result": False, "comment_on": []}
    all_three = {"read_body": True, "write_result": True, "comment_on": ["succeeded"]}
    variants: dict[str, tuple[str, int, int, dict[str, Any]]] = {
        "claim and finish": ("exclusive", 50, 3, {}),
        "with the body read": ("exclusive", 10, 4, {"read_body": True}),
        "with the result written": ("exclusive", 10, 4, {"write_result": True}),
        "with a comment": ("exclusive", 10, 4, {"comment_on": ["succeeded"]}),
        "with all three": ("exclusive", 10, 6, all_three),
        "shared: claim and finish": ("shared", 50, 5, {}),
        "shared: with all three": ("shared", 10, 8, all_three),
    }
    for name, (mode, count, expected, claim) in variants.items():
        home = folder / name.replace(" ", "-").replace(":", "")
        trial = Trial(home, nursery, FUNCTIONS, "two_effects", claim={**bare, **claim}, every="2s", mode=mode).open()
        try:
            calls, queries = _calls_of(trial, count)
        finally:
            trial.close()
        spread = dict(sorted(Counter(calls).items()))
        say(f"  {name:25} {count:3} cards: {spread} (calls: cards), and {queries} shared queries")
        if set(calls) != {expected}:
            found.append(f"{name}: {spread} calls a card instead of {expected}")
    return found


def _calls_of(trial: Trial, count: int) -> tuple[list[int], int]:
    process = trial.up()
    eventually("two whole polls have shown nobody else", lambda: trial.rows(EXCLUSIVE))
    cards = trial.add_cards(*(f"card {number}" for number in range(count)))
    before = _queries(trial)
    trial.wait_quiet(cards, 120)
    process.send(signal.SIGTERM)
    if process.wait() != 0:
        raise RuntimeError(process.output.read_text())
    ours = trial.hermes_calls()
    calls = Counter(card for call in ours for card in call["objects"])
    return [calls[card] for card in cards], _queries(trial) - before


def _queries(trial: Trial) -> int:
    return sum(1 for call in trial.hermes_calls() if call["route"] == "POST /v1/data_sources/{data_source_id}/query")
