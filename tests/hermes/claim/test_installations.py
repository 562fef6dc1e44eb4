"""Several processes of one installation, and another installation on the same board."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from hermes.model.card import CardStatus, CardValues
from hermes.model.claim import ClaimState


def test_acceptance_the_first_poll_claims_by_the_shared_protocol_the_second_exclusively(team) -> None:
    first = team.installation("first")
    first.configure(max_concurrent=5)
    early = team.add("early")
    team.forget_calls()
    first.poll()
    assert first.state(early) is ClaimState.settling
    assert team.calls_of(early) == {"GET /v1/pages/{page_id}": 1, "PATCH /v1/pages/{page_id}": 1}
    team.clock.advance(timedelta(seconds=13))
    first.desk.tick()
    assert first.state(early) is ClaimState.claimed
    assert sum(team.calls_of(early).values()) == 3
    late = team.add("late")
    team.clock.advance(timedelta(minutes=10))
    team.forget_calls()
    first.poll()
    assert first.state(late) is ClaimState.claimed
    assert team.calls_of(late) == {"PATCH /v1/pages/{page_id}": 1}


def test_acceptance_a_second_installation_notices_the_first_and_claims_nothing(team, hermes) -> None:
    team.add("ours")
    hermes.poll()
    waiting = team.add("waiting")
    second = team.installation("second")
    team.clock.advance(timedelta(seconds=1))
    taken = second.poll()
    assert "another installation (alone)" in (taken.stopped or "")
    assert "hermes-poll board adopt" in (taken.stopped or "")
    assert second.runs() == []
    assert team.status(waiting) is CardStatus.todo
    team.clock.advance(timedelta(hours=2))
    second.poll()
    assert second.runs() == [], "an expired foreign claim is not taken either"


def test_the_first_installation_notices_a_live_claim_of_the_second(team, hermes) -> None:
    stranger = team.add("theirs")
    theirs = team.installation("second")
    team.board.write(
        stranger,
        CardValues(
            status=CardStatus.in_progress,
            claimed_by=theirs.identity.claimed_by,
            run_id="r",
            claim_expires_at=team.clock.now() + timedelta(hours=1),
        ),
    )
    waiting = team.add("waiting")
    assert hermes.poll().stopped is not None
    assert team.status(waiting) is CardStatus.todo


def test_the_stop_is_kept_by_the_database(team, hermes) -> None:
    team.add("ours")
    hermes.poll()
    second = team.installation("second")
    second.poll()
    hermes.work()
    hermes.desk.tick()
    waiting = team.add("waiting")
    second.restart("boot-2")
    team.clock.advance(timedelta(minutes=10))
    second.poll()
    assert team.status(waiting) is CardStatus.todo


def test_a_claim_with_our_name_that_our_database_does_not_know_stops_claiming(team, hermes) -> None:
    card_id = team.add("from a copied database")
    team.board.write(
        card_id, CardValues(status=CardStatus.in_progress, claimed_by="hermes/alone:elsewhere", run_id="unknown")
    )
    waiting = team.add("waiting")
    assert "restored or copied" in (hermes.poll().stopped or "")
    assert team.status(waiting) is CardStatus.todo


def test_two_installations_in_their_first_poll_run_no_card_twice(team) -> None:
    """Both ask before either has claimed: the settling time shows who won."""
    card_id = team.add("contested")
    first, second = team.installation("first"), team.installation("second")
    first.desk.ask(first.board)
    second.desk.ask(second.board)
    first.desk.tick()
    second.desk.tick()
    team.clock.advance(timedelta(seconds=13))
    first.desk.tick()
    second.desk.tick()
    runs = [installation.runs() for installation in (first, second)]
    assert sorted(map(len, runs)) == [0, 1]
    assert team.card(card_id).run_id == (runs[0] + runs[1])[0].id


def test_the_read_back_shows_who_won_when_both_had_read_before_either_wrote(team, monkeypatch) -> None:
    card_id = team.add("contested")
    first, second = team.installation("first"), team.installation("second")
    first.desk.ask(first.board)
    second.desk.ask(second.board)
    original = first.board.write

    def after_the_second(card, values, **how):
        monkeypatch.setattr(first.board, "write", original)
        second.desk.tick()
        return original(card, values, **how)

    monkeypatch.setattr(first.board, "write", after_the_second)
    first.desk.tick()
    team.clock.advance(timedelta(seconds=13))
    first.desk.tick()
    second.desk.tick()
    assert (len(first.runs()), len(second.runs())) == (1, 0)
    assert team.card(card_id).run_id == first.runs()[0].id


def test_a_claim_acknowledged_too_late_is_not_started(team, monkeypatch) -> None:
    shared = team.installation("slow", shared=True)
    card_id = team.add()
    shared.desk.ask(shared.board)
    original = shared.board.write

    def slow(card, values, **how):
        monkeypatch.setattr(shared.board, "write", original)
        answer = original(card, values, **how)
        team.clock.advance(timedelta(seconds=11))
        return answer

    monkeypatch.setattr(shared.board, "write", slow)
    shared.desk.tick()
    team.clock.advance(timedelta(seconds=131))
    shared.desk.tick()
    team.clock.advance(timedelta(minutes=15))
    shared.desk.tick()
    assert shared.runs() == []
    assert "claimed but never started" in (team.card(card_id).last_error or "")


def test_W13_processes_of_one_installation_share_twenty_cards_without_a_double(team, hermes) -> None:
    hermes.configure(max_concurrent=20)
    cards = [team.add(f"card {n}") for n in range(20)]
    team.forget_calls()
    hermes.desk.ask(hermes.board)
    desks = [hermes.another_desk(f"boot-{n}") for n in range(4)]
    threads = [threading.Thread(target=desk.tick) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hermes.runs()) == 20
    assert {team.card(card).run_id for card in cards} == {run.id for run in hermes.runs()}
    writes = [team.calls_of(card)["PATCH /v1/pages/{page_id}"] for card in cards]
    assert writes == [1] * 20, "losers write nothing"


def test_W12_expired_claims_fill_no_place(team, hermes, monkeypatch) -> None:
    hermes.configure(max_concurrent=1)
    lost = team.add("lost")
    hermes.desk.ask(hermes.board)

    class Died(BaseException):
        pass

    def die(_card, _values, **_how):
        monkeypatch.undo()
        raise Died

    monkeypatch.setattr(hermes.board, "write", die)
    with pytest.raises(Died):
        hermes.desk.tick()
    team.clock.advance(timedelta(seconds=131))
    with hermes.store.read() as uow:
        assert uow.places.free_places("tasks") == 1
    hermes.poll()
    hermes.poll()
    assert team.status(lost) is CardStatus.in_progress
