"""What people saw go wrong with workers (SCENARIOS.md W1 to W14), and FAILURES.md A20 and A21, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.testing.checker import problems
from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Started
from hermes.testing.trial import EXCLUSIVE, Trial, eventually

Make = Callable[..., Trial]


def ends_well(process: Started, seconds: float = 45) -> bool:
    process.send(signal.SIGTERM)
    return process.wait(seconds) == 0


@pytest.mark.parametrize("function", ["one_slow", pytest.param("one_blocking", marks=pytest.mark.always)])
def test_W1_W10_a_command_of_two_leases_keeps_its_lease(trial: Make, function: str) -> None:
    """One long call, in a thread or as blocking code on the event loop: renewals come from elsewhere"""
    here = trial(function, args={"seconds": 11.0})
    first = here.up()
    (card,) = here.add_cards("A card")
    eventually("the command runs", lambda: here.rows("SELECT 1 FROM steps WHERE state = 'started'"), 30)
    second = here.up()
    here.wait_quiet([card], 60)
    assert problems(here, [card], effects=1) == []
    assert here.run_of(card)["take_overs"] == 0
    assert len(here.log()) == 1
    assert ends_well(first)
    assert ends_well(second)


def test_W6_sigterm_in_the_middle_leaves_nothing_in_progress(trial: Make) -> None:
    """The only process drains: what ran is finished or back in Todo, and the next process goes on with the same runs"""
    here = trial("five_effects", workers={"slots": 2}, claim={"max_concurrent": 6}, args={"sleep_seconds": 0.1})
    process = here.up()
    eventually("it knows to be alone", lambda: here.rows(EXCLUSIVE))
    cards = here.add_cards(*(f"card {number}" for number in range(10)))
    eventually("some effects have been made", lambda: len(here.log()) > 5, 30)
    process.send(signal.SIGTERM)
    assert process.wait(45) == 0, process.output.read_text()
    shown = [card["Status"] for card in here.cards().values()]
    assert set(shown) <= {"Todo", "Complete"}, shown
    assert here.rows("SELECT 1 FROM runs WHERE state = 'running'") == []
    assert here.rows("SELECT 1 FROM cards WHERE holder IS NOT NULL") == []
    other = here.up()
    here.wait_quiet(cards, 60)
    assert problems(here, cards, effects=5) == []
    assert ends_well(other)


@pytest.mark.parametrize("after", [0.0, 0.3])
def test_A20_a_drain_that_is_cut_short_is_a_crash_like_any_other(trial: Make, after: float) -> None:
    here = trial("five_effects", claim={"max_concurrent": 4})
    victim = here.up()
    cards = here.add_cards(*(f"card {number}" for number in range(6)))
    eventually("some effects have been made", lambda: len(here.log()) > 5, 30)
    victim.send(signal.SIGTERM)
    time.sleep(after)
    victim.kill()
    victim.wait()
    other = here.up()
    here.wait_quiet(cards, 90)
    assert problems(here, cards, effects=5) == []
    assert ends_well(other)


def test_W11_a_restarted_container_with_the_same_pid_is_somebody_else(trial: Make, server: PostgresServer) -> None:
    here = trial("one_slow", args={"seconds": 3.0}, postgres=server)
    waited = _taken_over_by_the_same_pid(here)
    assert waited > 1.5, "it took the dead one's lease for its own"


def test_W11_on_one_machine_a_lock_proves_the_death_of_the_same_pid(trial: Make) -> None:
    here = trial("one_slow", args={"seconds": 3.0})
    _taken_over_by_the_same_pid(here)


def _taken_over_by_the_same_pid(here: Trial) -> float:
    """Seconds from the death of the one until the other had its run."""
    first = here.up(task="hermes as pid 1")
    (card,) = here.add_cards("A card")
    eventually("the command runs", lambda: here.rows("SELECT 1 FROM steps WHERE state = 'started'"), 30)
    owner = here.run_of(card)["owner"]
    first.kill()
    died_at = time.monotonic()
    first.wait()
    second = here.up(task="hermes as pid 1")
    for process in (first, second):
        said = eventually("it says its pid", lambda process=process: process.output.read_text(), 10)
        assert json.loads(said.splitlines()[0])["pid"] == 1
    eventually(
        "the run is taken over",
        lambda: here.rows("SELECT 1 FROM runs WHERE owner IS NOT NULL AND owner != ?", owner),
        30,
        every=0.02,
    )
    waited = time.monotonic() - died_at
    (told,) = here.rows("SELECT detail FROM timeline WHERE what = 'take-over'")
    assert owner in str(told["detail"]), "taken over from the dead one, not gone on with"
    here.wait_quiet([card], 60)
    assert problems(here, [card], effects=1) == []
    assert here.run_of(card)["take_overs"] == 1
    assert ends_well(second)
    return waited


def test_W13_two_processes_start_within_a_second_on_twenty_cards(trial: Make) -> None:
    here = trial("one_keyed", claim={"max_concurrent": 8})
    cards = here.add_cards(*(f"card {number}" for number in range(20)))
    processes = [here.up(), here.up()]
    here.wait_quiet(cards, 90)
    assert problems(here, cards, effects=1) == []
    for card in cards:
        assert len([values for values in here.writes_to(card) if values.get("RunId")]) == 1
    assert all(ends_well(process) for process in processes)


def test_W14_A21_a_card_that_kills_every_process_is_parked_and_the_others_go_on(trial: Make) -> None:
    here = trial("maybe_poison", claim={"max_concurrent": 3})
    cards = here.add_cards("poison", "good 1", "good 2", "good 3")
    deaths, process = 0, here.up()
    over = time.monotonic() + 240

    def settled() -> bool:
        shown = here.cards()
        return all(shown[card]["Status"] in ("Complete", "Failed") for card in cards)

    while not settled():
        assert time.monotonic() < over, here.cards()
        if not process.alive:  # the supervisor
            deaths += 1
            process = here.up()
        time.sleep(0.1)
    poison, *good = cards
    assert here.card(poison)["Status"] == "Failed"
    assert "poison crash" in here.card(poison)["LastError"]
    assert here.run_of(poison)["state"] == "parked"
    assert deaths == 5
    for card in good:
        assert here.card(card)["Status"] == "Complete"
    assert {entry.body["card"] for entry in here.log()} == set(good)
    assert all(entry.changed or entry.key in {e.key for e in here.log() if e.changed} for entry in here.log())
    assert ends_well(process)


def test_the_command_itself_killed_and_started_again(trial: Make) -> None:
    """`hermes-poll up` as an operator runs it, not forked from a warm parent"""
    here = trial("five_effects", claim={"max_concurrent": 4})
    cards = here.add_cards(*(f"card {number}" for number in range(6)))
    command = [Path(sys.executable).with_name("hermes-poll"), "--config", here.config, "up"]
    command += ["--role", "scheduler", "--role", "worker"]

    def start() -> subprocess.Popen[bytes]:
        with open(here.folder / "out" / "command.log", "ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))

    with start() as first:
        eventually("some effects have been made", lambda: len(here.log()) > 5, 60)
        first.kill()
    with start() as second:
        try:
            here.wait_quiet(cards, 90)
        finally:
            second.send_signal(signal.SIGTERM)
        assert second.wait(45) == 0
    assert problems(here, cards, effects=5) == []
