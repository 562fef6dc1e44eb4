"""Dead processes, lost answers, refused writes: the card is neither lost nor done twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.errors import SourceError
from hermes.model.card import CardStatus
from hermes.model.claim import ClaimState
from hermes.model.run import RunState

pytestmark = pytest.mark.sqlite_is_enough

PATCH = "PATCH /v1/pages/{page_id}"
GET = "GET /v1/pages/{page_id}"
WAIT_OUT = timedelta(seconds=66)
HOLD = timedelta(seconds=131)


class Died(BaseException):
    """Stands for kill -9 in this thread: nothing after it runs."""


def die_at(monkeypatch, module: str, point: str) -> None:
    def reach(reached) -> None:
        if reached == point:
            monkeypatch.undo()
            raise Died

    monkeypatch.setattr(f"hermes.claim.{module}.reach", reach)


@pytest.mark.parametrize(
    ("module", "point"), [("claiming", "A3"), ("writing", "A4"), ("claiming", "A5"), ("start", "A6")]
)
def test_W4_death_between_claim_and_start_is_made_good_within_a_hold(team, hermes, monkeypatch, module, point) -> None:
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    die_at(monkeypatch, module, point)
    with pytest.raises(Died):
        hermes.desk.tick()
    other = hermes.another_desk("boot-2")
    other.tick()
    assert hermes.runs() == [], "the hold still stands"
    assert hermes.state(card_id) is ClaimState.claiming
    team.clock.advance(HOLD)
    other.ask(hermes.board)
    other.tick()
    assert len(hermes.runs()) == 1
    assert hermes.run_of(card_id).key == f"{card_id}:1:act"
    hermes.work()
    other.tick()
    assert team.status(card_id) is CardStatus.complete


@pytest.mark.parametrize(("module", "point"), [("finish", "A14"), ("writing", "A15"), ("finish", "A16")])
def test_death_while_the_ending_is_shown_only_repeats_the_showing(team, hermes, monkeypatch, module, point) -> None:
    hermes.configure(comment_on=frozenset({"succeeded"}))
    card_id = team.add()
    hermes.poll()
    hermes.work(result="the answer")
    die_at(monkeypatch, module, point)
    with pytest.raises(Died):
        hermes.desk.tick()
    team.clock.advance(HOLD)
    hermes.another_desk("boot-2").tick()
    assert team.status(card_id) is CardStatus.complete
    assert team.board.read_body(card_id).count("the answer") == 1
    assert len(team.comments(card_id)) == 1
    assert len(hermes.runs()) == 1


def test_a_stopped_process_that_wakes_after_its_hold_writes_nothing(team, hermes, monkeypatch) -> None:
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    other = hermes.another_desk("boot-2")
    original = hermes.board.write

    def slow_write(card, values, **how):
        answer = original(card, values, **how)
        monkeypatch.setattr(hermes.board, "write", original)
        team.clock.advance(HOLD)  # SIGSTOP for longer than the hold; meanwhile another process does it all:
        other.tick()
        hermes.work()
        other.tick()
        team.forget_calls()
        return answer

    monkeypatch.setattr(hermes.board, "write", slow_write)
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.done
    assert len(hermes.runs()) == 1
    assert team.calls_of(card_id) == {}


LOST = [
    {"kind": "answer_after", "status": 503, "code": "service_unavailable"},
    {"kind": "drop"},
    {"kind": "answer_after", "status": 502, "html": "<html>Bad gateway</html>"},
]


@pytest.mark.parametrize("fault", LOST)
def test_N3_a_claim_that_was_applied_but_not_answered_is_found_by_its_run_id(team, hermes, fault) -> None:
    card_id = team.add()
    team.fault(route=PATCH, page_id=card_id, **fault)
    team.forget_calls()
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.claimed
    assert team.calls_of(card_id) == {PATCH: 1, GET: 1}
    hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert len(hermes.runs()) == 1


@pytest.mark.parametrize("fault", LOST)
def test_a_claim_whose_answer_and_read_were_lost_waits_until_it_can_no_longer_land(team, hermes, fault) -> None:
    card_id = team.add()
    team.fault(route=PATCH, page_id=card_id, **fault)
    team.fault(kind="answer", route=GET, page_id=card_id, status=503, times=3)
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.claiming
    team.forget_calls()
    team.clock.advance(WAIT_OUT - timedelta(seconds=5))
    hermes.poll()
    assert team.calls_of(card_id) == {}, "nobody touches the page before Z is over"
    team.clock.advance(timedelta(seconds=6))
    hermes.desk.tick()
    assert team.calls_of(card_id) == {GET: 1}
    hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert len(hermes.runs()) == 1


def test_a_claim_that_was_not_applied_is_made_again_after_the_wait(team, hermes) -> None:
    card_id = team.add()
    team.fault(kind="answer", route=PATCH, page_id=card_id, status=502, html="<html>Bad gateway</html>")
    hermes.poll()
    team.clock.advance(WAIT_OUT)
    hermes.poll()
    hermes.poll()
    assert hermes.run_of(card_id).key == f"{card_id}:1:act"
    assert team.status(card_id) is CardStatus.in_progress


def test_N2_a_conflict_on_the_claim_is_read_and_decided_again(team, hermes) -> None:
    card_id = team.add()
    team.fault(kind="answer", route=PATCH, page_id=card_id, status=409, code="conflict_error", message="Conflict")
    hermes.poll()
    for _ in range(5):
        team.clock.advance(timedelta(seconds=2))
        hermes.poll()
    assert team.status(card_id) is CardStatus.in_progress
    assert len(hermes.runs()) == 1


def test_N2_a_conflict_on_completion_is_read_and_decided_again(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    team.fault(kind="answer", route=PATCH, page_id=card_id, status=409, code="conflict_error", message="Conflict")
    hermes.desk.tick()
    team.move(card_id, "Cancelled")  # the conflict was a person's
    team.clock.advance(timedelta(seconds=2))
    hermes.desk.tick()
    assert team.card(card_id).status_name == "Cancelled"


def test_an_unanswered_completion_waits_out_z_then_looks(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    team.fault(kind="drop", route=PATCH, page_id=card_id)
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.claimed
    team.clock.advance(WAIT_OUT)
    team.forget_calls()
    hermes.desk.tick()
    assert team.calls_of(card_id) == {GET: 1}, "it had landed: nothing to write"
    assert hermes.state(card_id) is ClaimState.done


def test_N1_a_rate_limit_fails_no_card(team, hermes) -> None:
    card_id = team.add()
    limited = {"status": 429, "code": "rate_limited", "headers": {"Retry-After": "460"}}
    team.fault(kind="answer", route=PATCH, page_id=card_id, **limited)
    hermes.poll()
    assert team.status(card_id) is CardStatus.todo
    team.clock.advance(timedelta(seconds=461))
    hermes.poll()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_W7_the_ending_is_derived_by_another_process_when_the_report_is_lost(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.failed, reason="no luck")
    hermes.another_desk("boot-9").tick()  # the first process never got to it
    assert team.status(card_id) is CardStatus.failed


def test_a_result_that_was_sent_without_an_answer_is_not_appended_twice(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(result="the answer")
    team.fault(kind="drop", route="PATCH /v1/blocks/{block_id}/children", page_id=card_id)
    hermes.desk.tick()
    team.clock.advance(WAIT_OUT)
    hermes.desk.tick()
    assert team.board.read_body(card_id).count("the answer") == 1
    assert team.status(card_id) is CardStatus.complete


def test_B4_a_deleted_column_stops_claiming_with_its_name_while_running_cards_finish(team, hermes) -> None:
    running = team.add("running")
    hermes.poll()
    hermes.lease()
    team.client.write("PATCH", f"data_sources/{team.board.key}", {"properties": {"RunId": None}})
    waiting = team.add("waiting")
    team.clock.advance(timedelta(minutes=6))
    with pytest.raises(SourceError, match="RunId"):
        hermes.poll()
    with hermes.store.read() as uow:
        run = hermes.run_of(running)
        lease = uow.runs.get(run.id)
    assert lease is not None
    from hermes.model.run import Lease

    with hermes.store.write() as uow:
        uow.endings.end(Lease(run.id, run.owner or "", run.fence, team.clock.now()), RunState.succeeded)
    hermes.desk.tick()
    team.clock.advance(timedelta(minutes=2))
    hermes.desk.tick()
    pages = team.client.read("GET", f"pages/{running}")["properties"]
    assert pages["Status"]["select"]["name"] == "Complete"
    assert team.client.read("GET", f"pages/{waiting}")["properties"]["Status"]["select"]["name"] == "Todo"


def test_B4_a_card_whose_ending_has_lost_a_column_still_gets_its_status(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    team.client.write("PATCH", f"data_sources/{team.board.key}", {"properties": {"CompletedAt": None}})
    hermes.desk.tick()
    assert team.client.read("GET", f"pages/{card_id}")["properties"]["Status"]["select"]["name"] == "Complete"
    assert hermes.state(card_id) is ClaimState.done


def test_M9_a_query_with_nothing_is_normal(team, hermes) -> None:
    team.add()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    team.clock.advance(timedelta(minutes=1))
    taken = hermes.poll()
    assert (taken.checked, taken.stopped) == (0, None)


def test_a_query_that_takes_longer_than_hints_last_still_brings_candidates(team, hermes, monkeypatch) -> None:
    card_id = team.add()
    original = hermes.board.open_cards

    def slow():
        cards = original()
        team.clock.advance(3 * hermes.board.times.hint_age)
        return cards

    monkeypatch.setattr(hermes.board, "open_cards", slow)
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.claimed


def test_an_answer_that_was_overtaken_by_a_later_one_offers_nothing(team, hermes, monkeypatch) -> None:
    card_id = team.add()
    other = hermes.another_desk("boot-2")
    original = hermes.board.open_cards

    def overtaken():
        cards = original()
        monkeypatch.setattr(hermes.board, "open_cards", original)
        team.clock.advance(timedelta(seconds=1))
        team.move(card_id, "Failed")
        other.ask(hermes.board)
        return cards

    monkeypatch.setattr(hermes.board, "open_cards", overtaken)
    hermes.poll()
    assert hermes.runs() == []
    assert team.card(card_id).run_id is None


def test_a_write_that_a_suspension_held_up_is_never_sent(team, hermes, monkeypatch) -> None:
    """A18 between the logging of a write and its sending."""
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    other = hermes.another_desk("boot-2")

    def suspend(reached) -> None:
        if reached == "A4":
            monkeypatch.undo()
            team.clock.advance(HOLD)
            other.ask(hermes.board)
            other.tick()
            hermes.work()
            other.tick()
            team.forget_calls()

    monkeypatch.setattr("hermes.claim.writing.reach", suspend)
    hermes.desk.tick()
    assert team.calls_of(card_id) == {}
    assert team.status(card_id) is CardStatus.complete
    assert len(hermes.runs()) == 1
