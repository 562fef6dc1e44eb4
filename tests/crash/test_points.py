"""FAILURES.md A1 to A16: a process dies of SIGKILL exactly at a crash point, another goes on, and nothing is lost or
done twice. A13 (an event stored before its run is woken) comes with events."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from hermes.testing.checker import problems
from hermes.testing.nursery import Started
from hermes.testing.recorder import Recorded
from hermes.testing.trial import EXCLUSIVE, Trial, eventually

Make = Callable[..., Trial]


def dies_at(trial: Trial, crash: str, *, exclusive: bool = True) -> str:
    """A process claims a card and dies at that point; returns the card. Exclusive: it knows by then that no other
    installation is there; otherwise its first claim is made by the shared protocol."""
    log = trial.folder / "points.log"
    victim = trial.up(crash=crash, log=log)
    if exclusive:
        eventually("it knows to be alone", lambda: trial.rows(EXCLUSIVE))
    (card,) = trial.add_cards("A card")
    assert victim.wait(40) == -signal.SIGKILL, victim.output.read_text()
    assert log.read_text().split()[-1] == crash.partition(":")[0]
    return card


def continues(trial: Trial, card: str, *, effects: int = 2, status: str = "Complete") -> Started:
    """Another process brings the card to its end, and everything is as if nobody had died."""
    other = trial.up()
    trial.wait_quiet([card], 60)
    assert problems(trial, [card], effects=effects, status=status) == []
    assert stops(other) == 0
    return other


def stops(process: Started) -> int:
    process.send(signal.SIGTERM)
    return process.wait(40)


def claims_of(trial: Trial, card: str) -> list[dict[str, Any]]:
    return [values for values in trial.writes_to(card) if values.get("RunId")]


def endings_of(trial: Trial, card: str) -> list[dict[str, Any]]:
    return [values for values in trial.writes_to(card) if values.get("Status") in ("Complete", "Failed")]


def sent(trial: Trial, place: int) -> list[Recorded]:
    """Requests for that effect, in order."""
    return [entry for entry in trial.log() if not entry.looked_up and entry.body["place"] == place]


# -- before the card is ours


@pytest.mark.parametrize("point", ["A1", "A2"])
def test_death_around_the_query_leaves_the_card_for_the_next_poll(trial: Make, point: str) -> None:
    """A1, A2"""
    here = trial()
    (card,) = here.add_cards("A card")
    victim = here.up(crash=point)
    assert victim.wait(30) == -signal.SIGKILL
    assert here.card(card)["Status"] == "Todo"
    continues(here, card)


def test_a_card_reserved_but_not_claimed_goes_back_to_the_queue(trial: Make) -> None:
    """A3"""
    here = trial()
    card = dies_at(here, "A3")
    assert here.card(card)["Status"] == "Todo"
    assert here.rows("SELECT state FROM cards") == [{"state": "claiming"}]
    continues(here, card)
    assert len(claims_of(here, card)) == 1


def test_a_claim_that_was_logged_but_never_sent_is_made_again(trial: Make) -> None:
    """A4, the write that never lands"""
    here = trial()
    card = dies_at(here, "A4")
    assert here.card(card)["Status"] == "Todo"
    assert here.rows("SELECT kind, outcome FROM board_log") == [{"kind": "claim", "outcome": "sent"}]
    continues(here, card)
    assert len(claims_of(here, card)) == 1


@pytest.mark.parametrize("late", [1.0, pytest.param(2.7, marks=pytest.mark.always)])
def test_a_claim_that_lands_after_its_maker_died_is_found_and_kept(trial: Make, late: float) -> None:
    """A4, the ghost: it lands within Z = 3 s, nobody writes the page before, and its RunId is the one that runs"""
    here = trial()
    victim = here.up()
    eventually("it knows to be alone", lambda: here.rows(EXCLUSIVE))
    here.fault(kind="hang", route="PATCH /v1/pages/{page_id}", seconds=late)
    (card,) = here.add_cards("A card")
    eventually("the claim has been sent", lambda: claims_of(here, card), 20, every=0.01)
    victim.kill()
    assert here.card(card)["Status"] == "Todo"
    continues(here, card)
    assert len(claims_of(here, card)) == 1


# -- claimed, and nobody runs it


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("point", ["A5", "A6"])
def test_a_claim_without_a_run_is_started_by_another_process(trial: Make, point: str, exclusive: bool) -> None:
    """A5, A6 on a board of our own: the same RunId, one claim"""
    here = trial()
    card = dies_at(here, point, exclusive=exclusive)
    shown = here.card(card)
    assert shown["Status"] == "InProgress"
    assert here.rows("SELECT 1 FROM runs") == []
    continues(here, card)
    assert len(claims_of(here, card)) == 1
    assert here.card(card)["RunId"] == shown["RunId"]


def test_on_a_shared_board_a_claim_that_was_never_started_is_shown_to_people(trial: Make) -> None:
    """A5 with rivals: claimed but never started. People are told when the claim has run out, on the minute: a rival
    that it was written over would have put its name back by then."""
    here = trial(mode="shared", claim={"lease": "5s"})
    card = dies_at(here, "A5", exclusive=False)
    other = here.up()
    here.wait_final([card], 90)
    shown = here.card(card)
    assert shown["Status"] == "Failed"
    assert "claimed but never started" in shown["LastError"]
    assert here.log() == []
    assert here.rows("SELECT 1 FROM runs") == []
    assert stops(other) == 0


# -- running


def test_a_run_that_has_begun_goes_on(trial: Make) -> None:
    """A7"""
    here = trial()
    card = dies_at(here, "A7")
    assert here.card(card)["Status"] == "InProgress"
    assert here.log() == []
    continues(here, card)
    assert here.run_of(card)["take_overs"] == 1


@pytest.mark.always
@pytest.mark.parametrize(("point", "requests"), [("A8", 1), ("A9", 2)])
def test_a_keyed_effect_is_sent_again_with_the_same_key(trial: Make, point: str, requests: int) -> None:
    """A8, A9: whether it was sent is not known; the service keeps it to one change"""
    here = trial()
    card = dies_at(here, point)
    continues(here, card)
    first = sent(here, 1)
    assert len(first) == requests
    assert len({entry.key for entry in first}) == 1
    assert [entry.changed for entry in first].count(True) == 1


@pytest.mark.parametrize("point", ["A8", "A9"])
def test_a_checkable_effect_is_looked_up_first(trial: Make, point: str) -> None:
    """A8, A9: this service would make the change twice"""
    here = trial("one_checkable")
    card = dies_at(here, point)
    continues(here, card, effects=1)
    assert len(sent(here, 1)) == 1
    assert sum(entry.looked_up for entry in here.log()) == 1


@pytest.mark.parametrize(("point", "happened"), [("A8", 0), ("A9", 1)])
def test_a_naive_effect_is_left_to_a_person(trial: Make, point: str, happened: int) -> None:
    """A8, A9: it may have happened, and asking is not possible"""
    here = trial("one_naive")
    card = dies_at(here, point)
    other = here.up()
    here.wait_quiet([card], 40)
    shown = here.card(card)
    assert shown["Status"] == "Failed"
    assert shown["LastError"].startswith("Needs attention:")
    assert "may have happened" in shown["LastError"]
    assert any("may have happened" in comment for comment in here.comments(card))
    assert len(here.log()) == happened
    assert here.run_of(card)["state"] == "parked"

    # The person has looked, and asks for it again: the same run goes on under the same key.
    run_id = shown["RunId"]
    here.move(card, "Todo")
    eventually("it is complete", lambda: here.card(card)["Status"] == "Complete", 40)
    assert here.run_of(card)["id"] == run_id
    assert len(here.log()) == happened + 1
    assert len({entry.key for entry in here.log()}) == 1
    assert stops(other) == 0


@pytest.mark.parametrize(("point", "happened"), [("A8", 0), ("A9", 1)])
def test_an_effect_without_retries_happens_at_most_once(trial: Make, point: str, happened: int) -> None:
    """A8, A9 with retries=0: UnknownOutcome at the await, at every replay"""
    here = trial("one_at_most_once", claim={"max_attempts": 1})
    card = dies_at(here, point)
    other = here.up()
    here.wait_quiet([card], 40)
    assert here.card(card)["Status"] == "Failed"
    assert "its worker was lost" in here.card(card)["LastError"]
    assert here.run_of(card)["error_kind"] == "hermes.errors:UnknownOutcome"
    assert len(here.log()) == happened
    assert stops(other) == 0


def test_a_recorded_step_is_never_run_again(trial: Make) -> None:
    """A10"""
    here = trial()
    card = dies_at(here, "A10")
    continues(here, card)
    assert [len(sent(here, place)) for place in (1, 2)] == [1, 1]


@pytest.mark.parametrize("hit", [1, 2])
def test_a_transaction_cut_in_the_middle_changes_nothing(trial: Make, hit: int) -> None:
    """A11: the result of a step, half written"""
    here = trial()
    card = dies_at(here, f"A11:{hit}")
    assert here.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    step = here.rows("SELECT state, result FROM steps WHERE kind = 'command' ORDER BY seq DESC LIMIT 1")
    assert step == [{"state": "started", "result": None}]
    continues(here, card)
    assert [len(sent(here, place)) for place in (1, 2)] == [2 if hit == place else 1 for place in (1, 2)]


def test_a_delay_outlives_the_process_that_armed_it(trial: Make) -> None:
    """A12: it fires once, not early, and nobody waits for a lease"""
    here = trial(args={"sleep_seconds": 2.0})
    card = dies_at(here, "A12")
    assert here.run_of(card)["state"] == "waiting"
    assert here.run_of(card)["owner"] is None
    continues(here, card)
    assert here.run_of(card)["take_overs"] == 0
    assert [len(sent(here, place)) for place in (1, 2)] == [1, 1]


def test_a_query_that_lags_behind_for_ever_asks_for_nothing_again(trial: Make) -> None:
    """B8 between real processes: every query shows the card in Todo, and a GET decides"""
    here = trial(args={"sleep_seconds": 0.1})
    (card,) = here.add_cards("A card")
    here.fault(kind="query", route="POST /v1/data_sources/{data_source_id}/query", stale=[card], times=-1)
    processes = [here.up(), here.up()]
    eventually("it is complete", lambda: here.card(card)["Status"] == "Complete", 40)
    asked = len(here.hermes_calls())
    eventually("it has been asked for ten times more", lambda: len(here.hermes_calls()) > asked + 10, 60)
    here.clear_faults()
    here.wait_quiet([card], 30)
    assert problems(here, [card], effects=2) == []
    assert len(claims_of(here, card)) == 1
    assert [stops(process) for process in processes] == [0, 0]


# -- done, and not yet shown


@pytest.mark.parametrize("hit", [1, 2])
def test_a_finished_run_is_shown_by_another_process(trial: Make, hit: int) -> None:
    """A14: at the end of the run, and when its card was about to be written"""
    here = trial()
    card = dies_at(here, f"A14:{hit}")
    assert here.card(card)["Status"] == "InProgress"
    assert here.run_of(card)["state"] == "succeeded"
    continues(here, card)
    assert len(endings_of(here, card)) == 1


def test_an_ending_that_was_logged_but_never_sent_is_sent(trial: Make) -> None:
    """A15, the write that never lands"""
    here = trial()
    card = dies_at(here, "A15")
    assert here.card(card)["Status"] == "InProgress"
    continues(here, card)
    assert len(endings_of(here, card)) == 1


@pytest.mark.parametrize("late", [1.0, 2.7])
def test_an_ending_that_lands_after_its_maker_died_is_found(trial: Make, late: float) -> None:
    """A15, the ghost: one PATCH, and nobody writes the page before it landed"""
    here = trial()
    victim = here.up()
    eventually("it knows to be alone", lambda: here.rows(EXCLUSIVE))
    (card,) = here.add_cards("A card")
    eventually("it is claimed", lambda: claims_of(here, card), 20, every=0.01)
    here.fault(kind="hang", route="PATCH /v1/pages/{page_id}", seconds=late, page_id=card)
    eventually("the ending has been sent", lambda: endings_of(here, card), 20, every=0.01)
    victim.kill()
    assert here.card(card)["Status"] == "InProgress"
    continues(here, card)
    assert len(endings_of(here, card)) == 1


def test_a_card_that_is_complete_needs_nothing_more(trial: Make) -> None:
    """A16"""
    here = trial()
    card = dies_at(here, "A16")
    assert here.card(card)["Status"] == "Complete"
    continues(here, card)
    assert len(endings_of(here, card)) == 1
