"""Two installations on one board in shared mode, each with a database of its own, that want the same cards while writes
land late, get lost and are refused. No card may run twice, whoever claims it."""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from storm import FUNCTIONS, say

from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery
from hermes.testing.trial import FINAL, Trial, eventually

FAULTS: dict[str, Any] = {
    "ghost": {"rate": 0.04, "value": 2.9},  # Z is 3 s
    "ghost_unavailable": {"rate": 0.02, "value": 2.9},
    "unavailable_after": 0.05,
    "conflict": 0.05,
    "hang": {"rate": 0.4, "value": 1.2},  # W is 1 s: reads and writes of the two interleave, some too late
    "query_lag": {"rate": 0.2, "value": 2},
}


def rivals(folder: Path, nursery: Nursery, options: argparse.Namespace, postgres: PostgresServer | None) -> list[str]:
    """`postgres`: the second installation's database is there."""
    second = "PostgreSQL" if postgres else "SQLite"
    say(f"\nRivals: two installations (SQLite, {second}) on one shared board, seed {options.seed}")
    how: dict[str, Any] = {
        "mode": "shared",
        "claim": {"max_concurrent": 4, "max_open": 20, "lease": "20s", "write_result": False, "comment_on": []},
    }
    ours = Trial(folder / "ours", nursery, FUNCTIONS, "two_effects", **how).open()
    theirs = Trial(folder / "theirs", nursery, FUNCTIONS, "two_effects", beside=ours, postgres=postgres, **how).open()
    both = {"ours": ours, "theirs": theirs}
    try:
        ours.fault(plan={"seed": options.seed, **FAULTS})
        processes = [trial.up() for trial in both.values() for _ in range(2)]
        cards: list[str] = []
        began = time.monotonic()
        while (contested := _contested(both)) < options.contested and time.monotonic() < began + options.patience:
            # In waves: where both have room, both go for the same card.
            cards += ours.add_cards(*(f"card {len(cards) + number}" for number in range(4)))
            time.sleep(1.0)
        say(f"  {len(cards)} cards in {time.monotonic() - began:.0f} s, {contested} of them were gone for by both")
        try:
            eventually("every card is final", lambda: _final(ours, cards), options.patience, every=0.5)
            say(f"  every card final, after {time.monotonic() - began:.0f} s")
        except AssertionError as error:
            say(f"  NOT QUIET: {error}")
        ours.clear_faults()
        time.sleep(4)  # a ghost that is under way lands within Z
        found = _problems(both, cards)
        if contested < options.contested:
            found.append(f"only {contested} cards were contested")
        for process in processes:
            process.send(signal.SIGTERM)
        found += [
            f"{process.name} ended with {process.status} after SIGTERM: {process.output}"
            for process in processes
            if process.wait(60) != 0
        ]
        return found
    finally:
        theirs.close()
        ours.close()


def _final(trial: Trial, cards: list[str]) -> bool:
    shown = trial.cards()
    return all(shown[card]["Status"] in FINAL for card in cards)


def _problems(both: dict[str, Trial], cards: list[str]) -> list[str]:
    found = []
    shown = both["ours"].cards()
    runs = {
        (name, run["object_id"]): run
        for name, trial in both.items()
        for run in trial.rows("SELECT * FROM runs WHERE kind = 'card'")
    }
    by_run = {run["id"]: name for (name, _), run in runs.items()}
    made = Counter((entry.body["card"], entry.body["place"]) for entry in both["ours"].log() if entry.changed)
    finished: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    for card_id in cards:
        card = shown[card_id]
        name = f"{card['Name']} ({card_id})"
        started = [who for who in both if (who, card_id) in runs]
        endings[card["Status"]] += 1
        if len(started) > 1:
            found.append(f"{name}: both installations ran it")
        for place in (1, 2):
            if made[card_id, place] > 1:
                found.append(f"{name}: effect {place} happened {made[card_id, place]} times")
        if card["Status"] == "Complete":
            who = by_run.get(card["RunId"])
            finished[who or "nobody"] += 1
            if who is None or made[card_id, 1] != 1 or made[card_id, 2] != 1:
                found.append(f"{name}: complete without its work: run {card['RunId']}, {dict(made)}")
        elif card["Status"] != "Failed" or "Needs attention: claimed" not in (card["LastError"] or ""):
            found.append(f"{name}: {card['Status']} ({card['LastError']})")
        elif started:
            found.append(f"{name}: shown as never started, and {started[0]} started it")
    say(f"  cards: {dict(endings)}; finished by {dict(finished)}")
    met = both["ours"].ledger().get("faults") or {}
    say(f"  faults met by calls: {', '.join(f'{name} {count}' for name, count in sorted(met.items()))}")
    if set(finished) != set(both):
        found.append(f"not both have finished some: {dict(finished)}")
    return found


def _contested(both: dict[str, Trial]) -> int:
    """Cards that each has reserved at least once."""
    reserved = [
        {row["card_id"] for row in trial.rows("SELECT card_id FROM cards WHERE fence > 0")} for trial in both.values()
    ]
    return len(set.intersection(*reserved))
