"""A card goes from Todo to its end, and what that costs in calls."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.model.card import CardStatus
from hermes.model.claim import ClaimState
from hermes.model.run import RunError, RunState

pytestmark = pytest.mark.sqlite_is_enough


def test_a_card_goes_from_todo_to_complete_in_three_calls(team, hermes) -> None:
    card_id = team.add("Write the report", Description={"rich_text": [{"text": {"content": "two pages"}}]})
    team.forget_calls()
    hermes.poll()
    shown = team.card(card_id)
    run = hermes.run_of(card_id)
    assert shown.status is CardStatus.in_progress
    assert (shown.run_id, shown.claimed_by) == (run.id, "hermes/alone:boot-1")
    assert run.key == f"{card_id}:1:act"
    assert run.args == {"title": "Write the report", "text": "two pages", "body": ""}
    assert hermes.work() == 1
    hermes.desk.tick()
    shown = team.card(card_id)
    assert shown.status is CardStatus.complete
    assert shown.completed_at is not None
    assert shown.last_error is None
    assert hermes.state(card_id) is ClaimState.done
    looks_of_this_test = 2
    assert team.calls_of(card_id) == {
        "PATCH /v1/pages/{page_id}": 2,
        "GET /v1/pages/{page_id}": 1 + looks_of_this_test,
    }


def test_body_result_and_comment_cost_one_call_each(team, hermes) -> None:
    hermes.configure(read_body=True, comment_on=frozenset({"succeeded"}))
    card_id = team.add()
    team.forget_calls()
    hermes.poll()
    hermes.work(result="A long **answer**")
    hermes.desk.tick()
    calls = team.calls_of(card_id)
    assert sum(calls.values()) == 3 + 3, calls
    assert team.status(card_id) is CardStatus.complete
    assert "A long" in team.board.read_body(card_id)
    assert len(team.comments(card_id)) == 1


def test_the_next_card_is_claimed_at_once_in_order_of_priority(team, hermes) -> None:
    late = team.add("late", Priority={"select": {"name": "Low"}})
    first = team.add("first", Priority={"select": {"name": "Urgent"}})
    hermes.poll()
    assert (hermes.state(first), hermes.state(late)) == (ClaimState.claimed, ClaimState.candidate)
    hermes.work()
    hermes.desk.tick()
    assert (team.status(first), team.status(late)) == (CardStatus.complete, CardStatus.in_progress)


def test_on_tick_claims_only_after_a_query(team, hermes) -> None:
    hermes.configure(at_once=False)
    cards = [team.add(f"card {n}") for n in range(3)]
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    assert [team.status(card) for card in cards].count(CardStatus.todo) == 2
    team.clock.advance(timedelta(minutes=10))
    hermes.poll()
    assert [team.status(card) for card in cards].count(CardStatus.todo) == 1


def test_max_concurrent_and_max_open(team, hermes) -> None:
    hermes.configure(max_concurrent=2, max_open=3)
    cards = [team.add(f"card {n}") for n in range(5)]
    hermes.poll()
    assert [team.status(card) for card in cards].count(CardStatus.in_progress) == 2
    for leased in hermes.lease():  # both go to sleep: places are free again, but only three may be open
        with hermes.store.write() as uow:
            uow.endings.hibernate(leased.lease, uow.now + timedelta(hours=1), "sleeping")
    hermes.desk.tick()
    assert [team.status(card) for card in cards].count(CardStatus.in_progress) == 3


def test_a_sleeping_card_stays_claimed_until_it_wakes(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    wake = team.clock.now() + timedelta(days=2)
    with hermes.store.write() as uow:
        uow.endings.hibernate(leased.lease, wake, "sleeping")
    hermes.desk.tick()
    expires_at = team.card(card_id).claim_expires_at
    assert expires_at is not None
    assert expires_at >= wake + hermes.policy.lease
    assert team.status(card_id) is CardStatus.in_progress


def test_a_working_card_is_extended_rarely(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.lease()
    team.forget_calls()
    for _ in range(60):
        team.clock.advance(timedelta(minutes=1))
        hermes.desk.tick()
        calls = team.calls_of(card_id)
    assert 3 <= sum(calls.values()) <= 8, calls
    expires_at = team.card(card_id).claim_expires_at
    assert expires_at is not None
    assert expires_at > team.clock.now()


@pytest.mark.parametrize(
    ("state", "changes", "status", "text"),
    [
        (RunState.refused, {"reason": "card declined"}, CardStatus.failed, "card declined"),
        (RunState.failed, {"error": RunError("ValueError", "no such file")}, CardStatus.failed, "no such file"),
        (RunState.parked, {"reason": "may have happened"}, CardStatus.failed, "Needs attention: may have happened"),
    ],
)
def test_each_ending_is_shown_with_its_reason(team, hermes, state, changes, status, text) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(state, **changes)
    hermes.desk.tick()
    shown = team.card(card_id)
    assert shown.status is status
    assert text in (shown.last_error or "")
    if state is not RunState.refused:
        assert f"hermes-poll runs resume {hermes.run_of(card_id).id}" in (shown.last_error or "")
        assert len(team.comments(card_id)) == 1


def test_a_failed_delivery_shows_todo_and_is_claimed_again_when_due(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    run_id = hermes.run_of(card_id).id
    hermes.fail_once("timeout at the bank")
    hermes.desk.tick()
    shown = team.card(card_id)
    assert (shown.status, shown.retry_count, shown.claimed_by) == (CardStatus.todo, 1, None)
    assert "timeout at the bank" in (shown.last_error or "")
    assert hermes.lease() == []
    hermes.poll()  # a poll in between claims nothing
    assert team.status(card_id) is CardStatus.todo
    team.clock.advance(timedelta(seconds=31))
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.in_progress
    hermes.work()
    hermes.desk.tick()
    shown = team.card(card_id)
    assert (shown.status, shown.run_id, shown.last_error) == (CardStatus.complete, run_id, None)
    assert len(hermes.runs()) == 1


def test_a_failed_run_resumed_by_hand_is_claimed_again_under_its_key(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.failed, error=RunError("ValueError", "bad key"))
    hermes.desk.tick()
    run = hermes.run_of(card_id)
    assert team.status(card_id) is CardStatus.failed
    hermes.resume(run.id)
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.in_progress
    hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert hermes.run_of(card_id).key == run.key


def test_a_cancelled_run_leaves_no_card_in_progress(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    with hermes.store.write() as uow:
        uow.runs.cancel(hermes.run_of(card_id).id, "wrong customer")
    hermes.desk.tick()
    shown = team.card(card_id)
    assert shown.status is CardStatus.failed
    assert "wrong customer" in (shown.last_error or "")


def test_a_snooze_is_told_in_a_comment_once_and_a_delay_is_not(team, hermes) -> None:
    hermes.configure(comment_on=frozenset({"snooze"}))
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    until = team.clock.now() + timedelta(hours=3)
    with hermes.store.write() as uow:
        uow.endings.hibernate(leased.lease, team.clock.now() + timedelta(seconds=1), "step 1: delay", what="wait")
    hermes.desk.tick()
    assert team.comments(card_id) == []
    team.clock.advance(timedelta(seconds=2))
    (leased,) = hermes.lease()
    with hermes.store.write() as uow:
        uow.endings.hibernate(leased.lease, until, "the bank is closed", what="snooze")
    hermes.desk.tick()
    hermes.desk.tick()
    assert len(team.comments(card_id)) == 1
    assert "the bank is closed" in team.comments(card_id)[0]
    assert team.status(card_id) is CardStatus.in_progress


def test_stopping_gives_back_what_nobody_works_on_and_goes_on_after_a_restart(team, hermes) -> None:
    hermes.configure(max_concurrent=2)
    ready, asleep = team.add("ready"), team.add("asleep")
    hermes.poll()
    for leased in hermes.lease():
        with hermes.store.write() as uow:
            if leased.run.object_id == asleep:
                uow.endings.hibernate(leased.lease, uow.now + timedelta(hours=1), "sleeping")
            else:
                uow.leases.hand_back(leased.lease)
    hermes.desk.close()
    assert (team.status(ready), team.status(asleep)) == (CardStatus.todo, CardStatus.in_progress)
    assert hermes.lease() == []
    hermes.restart("boot-2")
    hermes.desk.tick()
    assert team.status(ready) is CardStatus.in_progress
    hermes.work()
    hermes.desk.tick()
    assert team.status(ready) is CardStatus.complete
    assert len(hermes.runs()) == 2
    assert team.card(ready).retry_count == 0


def test_a_poll_paused_while_its_claim_is_under_way_finishes_what_it_claimed(team, hermes, monkeypatch) -> None:
    card_id = team.add("claimed")
    team.clock.advance(timedelta(seconds=1))  # the older goes first
    waiting = team.add("waiting")
    hermes.poll()
    hermes.active = False
    hermes.work()
    hermes.desk.tick()
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert (team.status(card_id), team.status(waiting)) == (CardStatus.complete, CardStatus.todo)


def test_a_claim_whose_poll_has_left_the_configuration_is_given_back(team, hermes, monkeypatch) -> None:
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    original = hermes.board.write

    def leaves(card, values, **how):
        hermes.configured = False
        monkeypatch.setattr(hermes.board, "write", original)
        return original(card, values, **how)

    monkeypatch.setattr(hermes.board, "write", leaves)
    team.fault(kind="drop", route="PATCH /v1/pages/{page_id}", page_id=card_id)
    team.fault(kind="answer", route="GET /v1/pages/{page_id}", page_id=card_id, status=503, times=3)
    hermes.desk.tick()
    team.clock.advance(timedelta(seconds=66))
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.todo
    assert hermes.runs() == []
    hermes.configured = True
    team.clock.advance(timedelta(seconds=1))
    assert hermes.poll().stopped is None
    assert hermes.run_of(card_id).key == f"{card_id}:1:act"


def test_a_lasting_conflict_costs_a_bounded_number_of_calls(team, hermes) -> None:
    card_id = team.add()
    conflict = {"kind": "answer", "status": 409, "code": "conflict_error", "message": "Conflict", "times": -1}
    team.fault(route="PATCH /v1/pages/{page_id}", page_id=card_id, **conflict)
    team.forget_calls()
    hermes.desk.ask(hermes.board)
    for _ in range(200):
        team.clock.advance(timedelta(seconds=0.1))
        hermes.desk.tick()
    assert team.calls_of(card_id)["PATCH /v1/pages/{page_id}"] <= 6
    team.clear_faults()
    team.clock.advance(timedelta(minutes=10))
    hermes.poll()
    hermes.poll()
    assert team.status(card_id) is CardStatus.in_progress


def test_cards_of_one_minute_are_claimed_in_the_boards_order(team, hermes, monkeypatch) -> None:
    hermes.configure(max_concurrent=8)
    cards = [team.add(f"card {n}") for n in range(8)]
    claimed = []
    original = hermes.board.write

    def noted(card, values, **how):
        claimed.append(card)
        return original(card, values, **how)

    monkeypatch.setattr(hermes.board, "write", noted)
    hermes.poll()
    assert claimed == cards
