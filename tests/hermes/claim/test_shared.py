"""A board that several installations serve: five calls a card, at most one run of it, whatever interrupts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.model.card import CardStatus, CardValues
from hermes.model.claim import ClaimState
from hermes.model.run import RunState

PATCH = "PATCH /v1/pages/{page_id}"
GET = "GET /v1/pages/{page_id}"
SETTLED = timedelta(seconds=13)
LEASE = timedelta(minutes=15)
HOLD = timedelta(seconds=131)


@pytest.fixture
def ours(team):
    return team.installation("ours", shared=True)


@pytest.fixture
def theirs(team):
    return team.installation("theirs", shared=True)


def claim(team, installation) -> None:
    """Poll, and read the claims back."""
    installation.poll()
    team.clock.advance(SETTLED)
    installation.desk.tick()


def park(team, installation, card_id: str) -> None:
    claim(team, installation)
    installation.work(RunState.parked, reason="may have happened")
    installation.desk.tick()
    assert team.status(card_id) is CardStatus.failed
    team.clock.advance(timedelta(minutes=1))


class Died(BaseException):
    pass


def die_after_the_claim_has_landed(installation, monkeypatch) -> None:
    original = installation.board.write

    def write(card, values, **how):
        original(card, values, **how)
        monkeypatch.undo()
        raise Died

    monkeypatch.setattr(installation.board, "write", write)


def test_acceptance_five_calls_for_claim_and_finish(team, ours) -> None:
    cards = [team.add(f"card {n}") for n in range(5)]
    ours.configure(max_concurrent=5, write_result=False)
    team.forget_calls()
    claim(team, ours)
    assert ours.work() == 5
    ours.desk.tick()
    assert [team.calls_of(card) for card in cards] == [{GET: 3, PATCH: 2}] * 5
    assert [team.status(card) for card in cards] == [CardStatus.complete] * 5


def interrupt_the_next_claim(team, installation, monkeypatch) -> None:
    """It lands, and its maker dies; the hold is over and another process has looked."""
    die_after_the_claim_has_landed(installation, monkeypatch)
    with pytest.raises(Died):
        installation.desk.tick()
    installation.restart("boot-2")
    team.clock.advance(HOLD)
    installation.desk.tick()


def test_N3_a_claim_whose_answer_was_lost_is_read_at_once_and_then_settles(team, ours) -> None:
    card_id = team.add()
    team.fault(kind="answer_after", route=PATCH, page_id=card_id, status=503, code="service_unavailable")
    team.forget_calls()
    ours.poll()
    assert ours.state(card_id) is ClaimState.settling
    assert team.calls_of(card_id) == {GET: 2, PATCH: 1}
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.work() == 1


def test_N1_a_claim_that_had_to_wait_longer_than_W_after_its_read_is_not_sent(team, ours, monkeypatch) -> None:
    card_id = team.add()
    original = ours.board.write

    def limited(card, values, **how):
        team.clock.advance(timedelta(seconds=11))
        monkeypatch.undo()
        return original(card, values, **how)

    monkeypatch.setattr(ours.board, "write", limited)
    team.forget_calls()
    ours.poll()
    assert team.calls_of(card_id) == {GET: 1}, "the card is read again before anything is written"
    team.clock.advance(timedelta(seconds=5))
    claim(team, ours)
    assert ours.work() == 1


def test_C7_a_wall_clock_set_forward_does_not_shorten_the_settling(team, ours, theirs, monkeypatch) -> None:
    """Our claim lands, then somebody sets the clock forward: a rival that had read the card before may still write."""
    card_id = team.add()
    theirs.desk.ask(theirs.board)
    original = theirs.board.write

    def ours_comes_between(card, values, **how):
        monkeypatch.undo()
        ours.poll()
        team.clock.step_wall(timedelta(minutes=5))
        ours.desk.tick()
        assert ours.runs() == [], "read back before a rival's claim could land"
        team.clock.advance(timedelta(seconds=9))
        return original(card, values, **how)

    monkeypatch.setattr(theirs.board, "write", ours_comes_between)
    theirs.desk.tick()
    team.clock.advance(SETTLED)
    ours.desk.tick()
    theirs.desk.tick()
    assert (len(ours.runs()), len(theirs.runs())) == (0, 1)
    assert team.card(card_id).run_id == theirs.runs()[0].id


def test_C4_a_late_claim_is_left_to_a_rival_that_may_have_started(team, ours, theirs, monkeypatch) -> None:
    """Ours lands after theirs was read back: they work. Whoever shows the card to people would stop their run."""
    card_id = team.add()
    ours.desk.ask(ours.board)
    original = ours.board.write

    def late(card, values, **how):
        monkeypatch.undo()
        claim(team, theirs)
        how["send_by"] = None  # it had left in time and lay on the way
        return original(card, values, **how)

    monkeypatch.setattr(ours.board, "write", late)
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.claiming
    team.clock.advance(HOLD)
    ours.desk.tick()
    assert ours.runs() == []
    assert team.status(card_id) is CardStatus.in_progress, "nobody is told yet: a rival may be at work"
    theirs.poll()
    assert team.card(card_id).run_id == theirs.runs()[0].id, "C6: their next poll puts their claim back"
    team.clock.advance(LEASE)
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.idle
    assert theirs.work() == 1
    theirs.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert ours.runs() == []


def test_a_late_claim_that_nobody_contests_is_shown_to_people_when_it_expires(team, ours, monkeypatch) -> None:
    card_id = team.add()
    ours.desk.ask(ours.board)
    interrupt_the_next_claim(team, ours, monkeypatch)
    with ours.store.read() as uow:
        assert uow.places.free_places("tasks") == 1, "others need not wait for it"
    assert team.status(card_id) is CardStatus.in_progress
    team.clock.advance(LEASE)
    ours.desk.tick()
    assert "claimed but never started" in (team.card(card_id).last_error or "")
    assert ours.runs() == []
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    claim(team, ours)
    claim(team, ours)
    assert ours.work() == 1


def test_a_parked_card_that_is_asked_for_again_settles_before_it_goes_on(team, ours, theirs) -> None:
    card_id = team.add()
    park(team, ours, card_id)
    team.move(card_id, "Todo")
    ours.poll()
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.settling
    assert ours.work() == 0, "a rival that read it in Todo may still claim it"
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.work() == 1
    ours.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert [run.key for run in ours.runs()] == [f"{card_id}:1:act"]


def test_a_parked_card_that_a_rival_claims_first_is_the_rivals(team, ours, theirs, monkeypatch) -> None:
    card_id = team.add()
    park(team, ours, card_id)
    team.move(card_id, "Todo")
    original = theirs.board.write

    def ours_first(card, values, **how):
        monkeypatch.undo()
        ours.poll()
        ours.desk.tick()
        assert ours.state(card_id) is ClaimState.settling
        return original(card, values, **how)

    monkeypatch.setattr(theirs.board, "write", ours_first)
    theirs.poll()
    team.clock.advance(SETTLED)
    ours.desk.tick()
    ours.desk.tick()
    theirs.desk.tick()
    assert [run.state for run in ours.runs()] == [RunState.cancelled]
    assert theirs.work() == 1
    theirs.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert team.card(card_id).run_id == theirs.runs()[0].id


def test_a_parked_card_whose_new_claim_was_interrupted_is_parked_again_under_its_key(team, ours, monkeypatch) -> None:
    card_id = team.add()
    park(team, ours, card_id)
    team.move(card_id, "Todo")
    ours.desk.ask(ours.board)
    interrupt_the_next_claim(team, ours, monkeypatch)
    assert ours.work() == 0
    team.clock.advance(LEASE)
    ours.desk.tick()
    assert [run.state for run in ours.runs()] == [RunState.parked]
    assert team.status(card_id) is CardStatus.failed
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    ours.poll()
    ours.desk.tick()
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.work() == 1
    assert [run.key for run in ours.runs()] == [f"{card_id}:1:act"]


def test_a_run_resumed_by_hand_settles_too(team, ours) -> None:
    card_id = team.add()
    claim(team, ours)
    ours.work(RunState.failed, error=None, reason="boom")
    ours.desk.tick()
    ours.resume(ours.run_of(card_id).id)
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.settling
    assert ours.work() == 0
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.work() == 1


def test_cards_that_wait_in_todo_when_a_board_becomes_shared_settle_too(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.todo
    hermes.configure(shared=True)
    team.clock.advance(timedelta(minutes=1))
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.settling
    assert hermes.lease() == []
    team.clock.advance(SETTLED)
    hermes.desk.tick()
    assert hermes.work() == 1


def test_a_failed_delivery_keeps_its_claim_where_another_installation_was_seen(team, hermes) -> None:
    """claim-model, retry rule: in Todo the other one would start it too."""
    card_id = team.add()
    hermes.poll()
    stranger = team.add("strange")
    team.write(stranger, CardValues(status=CardStatus.in_progress, claimed_by="hermes/other:boot", run_id="x"))
    team.clock.advance(timedelta(seconds=1))
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.in_progress
    team.clock.advance(timedelta(minutes=1))
    assert hermes.work() == 1


def abandoned(team, installation: str = "dead") -> str:
    card_id = team.add("abandoned")
    values = CardValues(
        status=CardStatus.in_progress,
        claimed_by=f"hermes/{installation}:boot",
        run_id="theirs",
        claim_expires_at=team.clock.now() + timedelta(minutes=1),
    )
    team.write(card_id, values)
    return card_id


def test_C5_an_expired_claim_of_another_installation_is_shown_and_never_taken(team, ours) -> None:
    card_id = abandoned(team)
    team.clock.advance(timedelta(minutes=10))
    claim(team, ours)
    assert team.status(card_id) is CardStatus.in_progress, "it may only be late with its extension"
    team.clock.advance(timedelta(minutes=10))
    claim(team, ours)
    shown = team.card(card_id)
    assert shown.status is CardStatus.failed
    assert "claimed by dead until 2026-01-05 09:01 UTC and not heard of since" in (shown.last_error or "")
    assert ours.runs() == []
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    claim(team, ours)
    assert ours.work() == 1


def test_C5_a_claim_that_was_extended_since_the_query_is_left_alone(team, ours, monkeypatch) -> None:
    card_id = abandoned(team)
    team.clock.advance(timedelta(minutes=30))
    original = ours.board.open_cards

    def stale():
        cards = original()
        team.write(card_id, CardValues(claim_expires_at=team.clock.now() + LEASE))
        return cards

    monkeypatch.setattr(ours.board, "open_cards", stale)
    ours.poll()
    assert team.status(card_id) is CardStatus.in_progress


def test_C6_a_foreign_ghost_over_our_running_claim_is_written_over(team, ours) -> None:
    card_id = team.add()
    claim(team, ours)
    run_id = ours.run_of(card_id).id
    ghost = CardValues(status=CardStatus.in_progress, claimed_by="hermes/theirs:boot", run_id="ghost")
    team.write(card_id, ghost)
    team.clock.advance(timedelta(seconds=1))
    ours.poll()
    assert (team.card(card_id).run_id, team.card(card_id).claimed_by) == (run_id, "hermes/ours:boot-1")
    team.write(card_id, ghost)
    ours.work()
    ours.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert team.card(card_id).run_id == run_id, "the ending says whose it is"


def test_a_claim_that_people_gave_away_after_it_had_expired_is_not_taken_back(team, ours, theirs) -> None:
    card_id = team.add()
    claim(team, ours)
    leased = ours.lease()  # its worker works, but nobody could extend the claim on the board
    team.clock.advance(2 * LEASE)
    team.move(card_id, "Todo")
    claim(team, theirs)
    assert len(theirs.runs()) == 1
    ours.desk.tick()
    assert ours.run_of(card_id).cancel_reason is not None
    ours.end(leased[0], RunState.cancelled, reason="asked to stop")
    ours.desk.tick()
    assert team.card(card_id).run_id == theirs.runs()[0].id
    assert theirs.work() == 1
    theirs.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_C11_a_claim_in_our_name_that_our_database_does_not_know_stops_a_shared_board(team, ours) -> None:
    abandoned(team, "ours")
    assert "restored or copied" in (ours.poll().stopped or "")


def test_B8_a_query_that_lags_behind_a_claim_we_lost_stops_nothing(team, ours, theirs, monkeypatch) -> None:
    card_id = team.add()
    theirs.desk.ask(theirs.board)
    original = theirs.board.write

    def ours_first(card, values, **how):
        monkeypatch.undo()
        ours.poll()
        team.fault(kind="query", stale=[card_id], times=-1)  # as it stands now: claimed by us
        return original(card, values, **how)

    monkeypatch.setattr(theirs.board, "write", ours_first)
    theirs.desk.tick()
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.idle, "lost to the rival"
    team.clock.advance(timedelta(seconds=1))
    assert ours.poll().stopped is None
    theirs.desk.tick()
    assert theirs.work() == 1


def test_E3_a_settling_claim_whose_card_is_trashed_and_restored_is_known_to_be_ours(team, ours) -> None:
    """Found by the model (KNOWN): the whole board stopped, as if the database had been restored."""
    card_id = team.add()
    ours.poll()
    team.trash(card_id)
    team.clock.advance(SETTLED)
    ours.desk.tick()
    assert ours.state(card_id) is ClaimState.gone
    team.client.write("PATCH", f"pages/{card_id}", {"in_trash": False})
    team.clock.advance(timedelta(seconds=5))
    assert ours.poll().stopped is None
    team.clock.advance(LEASE)
    ours.desk.tick()
    assert "claimed but never started" in (team.card(card_id).last_error or ""), "nobody knows what happened meanwhile"


def test_B15_nothing_is_claimed_on_a_shared_board_whose_clock_is_another(team, ours, monkeypatch) -> None:
    team.add()
    monkeypatch.setattr(type(ours.board), "skew", timedelta(seconds=-31))
    ours.poll()
    assert ours.runs() == []
    with ours.store.read() as uow:
        assert "differ by 31 s" in (uow.claims.board(ours.board.key).problem or "")
    monkeypatch.setattr(type(ours.board), "skew", timedelta(seconds=29))
    claim(team, ours)
    assert ours.work() == 1


def test_an_attention_that_we_have_shown_ourselves_is_not_claimed_again(team, ours, monkeypatch) -> None:
    """Found by the model (ME): shown, and the process died before it closed its row."""
    card_id = team.add()
    park(team, ours, card_id)
    team.move(card_id, "Todo")
    ours.desk.ask(ours.board)
    interrupt_the_next_claim(team, ours, monkeypatch)
    team.clock.advance(LEASE)
    die_after_the_claim_has_landed(ours, monkeypatch)
    with pytest.raises(Died):
        ours.desk.tick()
    assert team.status(card_id) is CardStatus.failed
    ours.restart("boot-3")
    team.clock.advance(HOLD)
    ours.desk.tick()
    assert [run.state for run in ours.runs()] == [RunState.parked]
    assert team.status(card_id) is CardStatus.failed


def test_B8_a_strange_claim_whose_page_is_gone_fails_no_poll(team, ours) -> None:
    """The query still shows it; a GET says that it was moved away."""
    abandoned(team, "ours")
    card_id = team.add("the next one")
    team.fault(kind="answer", route=GET, status=404, code="object_not_found")
    assert ours.poll().stopped is None
    team.clock.advance(SETTLED)
    assert ours.state(card_id) in (ClaimState.candidate, ClaimState.settling)


def test_C11_one_sure_claim_stops_a_board_without_reading_all_the_others(team, ours) -> None:
    cards = [abandoned(team, "ours") for _ in range(3)]
    team.forget_calls()
    assert ours.poll().stopped is not None
    assert sum(team.calls_of(card).get(GET, 0) for card in cards) == 1
