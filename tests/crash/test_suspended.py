"""FAILURES.md A18, SCENARIOS.md W3: a process is stopped (SIGSTOP) for longer than its run lease and its hold, another
does everything, and then the first goes on (SIGCONT): nothing it still does counts."""

from __future__ import annotations

import fcntl
import signal
import time
from collections.abc import Callable

import pytest

from hermes.testing.checker import problems
from hermes.testing.nursery import Started
from hermes.testing.trial import EXCLUSIVE, Trial, eventually

Make = Callable[..., Trial]
LONGER_THAN_ALL = 8.0
"""Run lease 5 s, hold 2 Z = 6 s."""


def stops_at(make: Make, point: str) -> tuple[Trial, Started, str]:
    """A process that is stopped at that point of its only card. Its other threads stop wherever they are: when one of
    them happens to be in a transaction, which is the last test's subject, another trial is made."""
    for _ in range(5):
        trial = make(args={"sleep_seconds": 0.1})
        log = trial.folder / "points.log"
        zombie = trial.up(crash=f"{point}:1:stop", log=log, desk_threads=1)
        if point not in ("A1", "A2"):
            eventually("it knows to be alone", lambda trial=trial: trial.rows(EXCLUSIVE))
        (card,) = trial.add_cards("A card")
        eventually("it is stopped", lambda zombie=zombie: is_stopped(zombie), 40)
        assert point in log.read_text().split()
        if point == "A11" or not has_locked(trial):
            return trial, zombie, card
        trial.close()
    raise AssertionError("it always stopped in the middle of some transaction")


def has_locked(trial: Trial) -> bool:
    for name in ("gate", "write"):
        with open(f"{trial.database}.{name}", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def is_stopped(process: Started) -> bool:
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def ends_well(process: Started) -> bool:
    process.send(signal.SIGTERM)
    return process.wait(40) == 0


@pytest.mark.parametrize(
    "point",
    [
        *("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A12", "A14", "A16"),
        pytest.param("A15", marks=pytest.mark.always),
    ],
)
def test_a_suspended_process_that_wakes_up_changes_nothing(trial: Make, point: str) -> None:
    here, zombie, card = stops_at(trial, point)
    stopped_at = time.monotonic()
    other = here.up()
    here.wait_quiet([card], 60)
    time.sleep(max(0.0, stopped_at + LONGER_THAN_ALL - time.monotonic()))
    before = here.card(card)
    writes = len(here.writes_to(card))
    zombie.send(signal.SIGCONT)
    time.sleep(2.0)
    assert here.card(card) == before
    assert len(here.writes_to(card)) == writes, "it wrote to a page that is another's"
    assert problems(here, [card], effects=2) == []
    # It is no worse for it: both take part in the next card.
    (second,) = here.add_cards("Another card")
    here.wait_quiet([second], 40)
    assert problems(here, [card, second], effects=2) == []
    assert ends_well(zombie)
    assert ends_well(other)


def test_an_effect_that_was_under_way_when_its_process_was_suspended(trial: Make) -> None:
    """W3: the effect goes out while its lease is another's; the same key makes it one, and its result is a receipt"""
    here = trial("one_slow", args={"seconds": 2.0})
    zombie = here.up()
    (card,) = here.add_cards("A card")
    eventually("the command runs", lambda: here.rows("SELECT 1 FROM steps WHERE state = 'started'"), 30)
    zombie.send(signal.SIGSTOP)
    stopped_at = time.monotonic()
    other = here.up()
    here.wait_quiet([card], 60)
    time.sleep(max(0.0, stopped_at + LONGER_THAN_ALL - time.monotonic()))
    assert len(here.log()) == 1
    zombie.send(signal.SIGCONT)
    eventually("the old request has arrived too", lambda: len(here.log()) == 2, 20)
    assert [entry.changed for entry in here.log()] == [True, False]
    eventually("its result is kept as a receipt", lambda: here.rows("SELECT 1 FROM receipts"), 20)
    assert problems(here, [card], effects=1) == []
    assert here.run_of(card)["take_overs"] == 1
    assert ends_well(zombie)
    assert ends_well(other)


def test_a_process_suspended_inside_a_transaction_holds_up_the_others_and_harms_nothing(trial: Make) -> None:
    """A18 at A11: SQLite has one writer. The others wait for it, and go on when it does, with every lease run out."""
    here, zombie, card = stops_at(trial, "A11")
    other = here.up()
    time.sleep(LONGER_THAN_ALL)
    assert here.card(card)["Status"] == "InProgress"
    zombie.send(signal.SIGCONT)
    here.wait_quiet([card], 60)
    assert problems(here, [card], effects=2) == []
    assert ends_well(zombie)
    assert ends_well(other)
