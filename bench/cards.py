"""Cards a second on the local board: one Hermes process, exclusive mode, no faults, one trivial step a card."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from bench.table import Table, spread
from hermes.testing.nursery import Nursery
from hermes.testing.trial import EXCLUSIVE, Trial, eventually

HERE = Path(__file__).parent
OPEN = 20
ONCE = "SELECT object_id FROM runs WHERE state = 'succeeded' GROUP BY object_id HAVING count(*) = 1"


def measure(folder: Path, *, cards: int, rounds: int, slots: int) -> tuple[Table, list[dict[str, Any]]]:
    rates, raw = [], []
    for number in range(rounds):
        seconds, complete = one(Path(tempfile.mkdtemp(prefix="cards-", dir=folder)), cards, slots)
        raw.append({"round": number + 1, "cards": cards, "seconds": seconds, "complete": complete})
        print(f"  round {number + 1}  cards {cards / seconds:7.1f}/s{'' if complete == cards else '  NOT EXACT'}")
        if complete == cards:
            rates.append(cards / seconds)
    table = Table("Cards on the local board", ["what", "cards/s", "spread"])
    about = f"Hermes, exclusive mode, {slots} slots, at most {OPEN} cards claimed at once"
    table.add(about, f"{median(rates):.1f}" if rates else "not exact", spread(rates) if rates else "")
    return table, raw


def one(folder: Path, cards: int, slots: int) -> tuple[float, int]:
    """Seconds from the first card put on the board to the last one closed; how many are Complete with one run each."""
    with closing(Nursery()) as nursery:
        trial = Trial(
            folder,
            nursery,
            HERE / "card_function.py",
            "work",
            workers={"slots": slots},
            claim={"max_concurrent": slots, "max_open": OPEN},
        ).open()
        try:
            trial.up()
            # The first claims of an installation are made by the protocol for shared boards, until it is known alone.
            eventually("the board is known to be ours alone", lambda: trial.rows(EXCLUSIVE))
            began = time.monotonic()
            ids = trial.add_cards(*(f"Card {number}" for number in range(cards)))
            trial.wait_quiet(ids, seconds=600)
            seconds = time.monotonic() - began
            shown = trial.cards()
            once = {row["object_id"] for row in trial.rows(ONCE)}
            return seconds, sum(shown[card]["Status"] == "Complete" and card in once for card in ids)
        finally:
            trial.close()
