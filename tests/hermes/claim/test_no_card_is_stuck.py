"""Cards that nobody would have looked at again: interrupted stops, pages that come back, boards that change."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from hermes.claim import ClaimingPoll, Desk
from hermes.model.card import CardStatus
from hermes.model.claim import ClaimState
from hermes.model.run import NewRun, RunKind, RunState
from hermes.model.step import StepKind
from hermes.operations import resume_run
from hermes.ports.pending import NewStep, Pending
from hermes.ports.runs import Resumed
from sources.notion.init import create_board
from tests.hermes.claim.conftest import TIMES, Act
from tests.hermes.claim.test_interrupted import HOLD, PATCH, WAIT_OUT, Died, die_at

pytestmark = pytest.mark.sqlite_is_enough


def handed_back(hermes) -> None:
    for leased in hermes.lease():
        with hermes.store.write() as uow:
            uow.leases.hand_back(leased.lease)


def asleep(hermes, wake: timedelta = timedelta(seconds=20)) -> None:
    for leased in hermes.lease():
        with hermes.store.write() as uow:
            uow.endings.hibernate(leased.lease, uow.now + wake, "sleeping")


def done_under_its_first_key(team, hermes, card_id: str) -> None:
    hermes.restart("boot-2")
    for _ in range(3):
        hermes.desk.tick()
        team.clock.advance(timedelta(minutes=1))
    assert team.status(card_id) is CardStatus.in_progress
    assert hermes.work() == 1
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete
    assert [run.key for run in hermes.runs()] == [f"{card_id}:1:act"]


@pytest.mark.parametrize("leave", [handed_back, asleep])
@pytest.mark.parametrize("applied", [True, False])
def test_A20_a_process_killed_while_it_gives_a_card_back_takes_nothing_from_it(
    team, hermes, monkeypatch, leave, applied
) -> None:
    card_id = team.add()
    hermes.poll()
    leave(hermes)
    if applied:
        write, sent = hermes.board.write, []

        def killed(*args, **kwargs):
            sent.append(write(*args, **kwargs))
            raise Died

        monkeypatch.setattr(hermes.board, "write", killed)
    else:
        die_at(monkeypatch, "writing", "A15")
    with pytest.raises(Died):
        hermes.desk.close()
    monkeypatch.undo()
    assert team.status(card_id) is (CardStatus.todo if applied else CardStatus.in_progress)
    team.clock.advance(HOLD)
    done_under_its_first_key(team, hermes, card_id)


@pytest.mark.parametrize("leave", [handed_back, asleep])
def test_giving_back_with_an_answer_that_is_lost_takes_nothing_from_the_card(team, hermes, leave) -> None:
    card_id = team.add()
    hermes.poll()
    leave(hermes)
    team.fault(kind="drop", route=PATCH, page_id=card_id)
    hermes.desk.close()
    team.clock.advance(WAIT_OUT)
    done_under_its_first_key(team, hermes, card_id)


@pytest.mark.parametrize("leave", [handed_back, asleep])
def test_a_stopping_process_leaves_started_cards_of_a_shared_board_claimed(team, leave) -> None:
    """claim_retry.py: in Todo another installation would start it too."""
    shared = team.installation("ours", shared=True)
    card_id = team.add()
    shared.poll()
    team.clock.advance(TIMES.settle)
    shared.desk.tick()
    leave(shared)
    shared.desk.close()
    assert team.status(card_id) is CardStatus.in_progress
    shared.restart("boot-2")
    team.clock.advance(timedelta(seconds=21))
    shared.desk.tick()
    assert shared.work() == 1
    shared.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_a_board_that_became_shared_sees_no_started_card_in_todo(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.fail_once()
    hermes.configure(shared=True)
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.in_progress
    team.clock.advance(timedelta(minutes=1))
    assert hermes.work() == 1
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_an_ending_that_could_not_be_shown_is_shown_when_the_board_is_shared_with_us_again(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    gone = {"status": 404, "code": "object_not_found", "message": "Could not find page"}
    for method in ("GET", "PATCH"):
        team.fault(kind="answer", route=f"{method} /v1/pages/{{page_id}}", page_id=card_id, times=-1, **gone)
    hermes.work()
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.gone
    team.clear_faults()
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert team.status(card_id) is CardStatus.complete


def test_a_trashed_card_that_is_restored_as_it_was_says_that_its_run_was_stopped(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    team.trash(card_id)
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.gone
    team.client.write("PATCH", f"pages/{card_id}", {"in_trash": False})
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert team.status(card_id) is CardStatus.failed
    assert "trash" in (team.card(card_id).last_error or "")


def test_a_page_that_was_done_on_another_board_of_ours_is_a_new_generation(team, hermes) -> None:
    card_id = team.add()
    with hermes.store.write() as uow:  # as it was left on the other board
        uow.claims.note_board("the other board", name="other")
        uow.claims.offer("the other board", "tasks", team.card(card_id), {}, uow.now)
        before = uow.claims.reserve(
            "the other board", "tasks", "before", "boot-0", uow.now, fresh_after=uow.now - timedelta(days=1)
        )
        assert before is not None
        uow.claims.let_go(before, due_at=None, state=ClaimState.gone)
    hermes.poll()
    assert hermes.run_of(card_id).key == f"{card_id}:2:act"
    assert hermes.work() == 1
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_a_poll_that_went_over_to_another_board_leaves_the_candidates_of_the_old_one_alone(team, hermes) -> None:
    waiting = [team.add(f"card {number}") for number in range(2)]
    hermes.desk.ask(hermes.board)  # candidates, none claimed
    settings = hermes.board.settings
    made = create_board(team.client, settings, title="Elsewhere")
    settings = settings.model_copy(update={"board": made.located.data_source_id})
    board = replace_board(team, settings)
    poll = ClaimingPoll(hermes.policy, board.key, Act("work"), lambda card, now: True)
    desk = Desk(
        hermes.store, lambda: {hermes.board.key: hermes.board, board.key: board}, lambda: {"tasks": poll},
        hermes.identity, hermes.clock,
    )  # fmt: skip
    desk.ask(board)
    team.clock.advance(timedelta(minutes=1))
    asked = []
    query = board.open_cards
    board.open_cards = lambda: asked.append(1) or query()
    for _ in range(5):
        desk.tick()
    assert asked == [], "there is nothing to claim there"
    assert {team.status(card) for card in waiting} == {CardStatus.todo}


def replace_board(team, settings):
    return type(team.board)("elsewhere", settings, team.client_as("alone"), clock=team.clock, times=TIMES)


def test_a_board_is_shared_also_while_its_poll_is_paused(team) -> None:
    ours, theirs = team.installation("ours", shared=True), team.installation("theirs", shared=True)
    team.add()
    theirs.poll()
    ours.active = False
    assert ours.poll().stopped is None


def test_days_of_failures_do_not_break_the_backoff(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    team.fault(kind="answer", route="GET /v1/pages/{page_id}", times=-1, status=429, code="rate_limited")
    with hermes.store.write() as uow:
        hold = uow.claims.hold_one(hermes.board.key, card_id, "boot-0", uow.now)
        assert hold is not None
        uow.claims.let_go(hold, due_at=uow.now, failures=2000)
    hermes.desk.tick()
    team.clear_faults()
    team.clock.advance(timedelta(minutes=6))
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_a_run_resumed_while_its_ending_is_being_written_waits_until_that_has_landed(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.failed)
    with hermes.store.write() as uow:
        held = uow.claims.hold_one(hermes.board.key, card_id, "boot-0", uow.now + 2 * TIMES.wait_out)
    assert held is not None
    hermes.resume(hermes.run_of(card_id).id)
    hermes.desk.tick()
    assert hermes.lease() == [], "a write to the page may still be under way"
    team.clock.advance(HOLD)
    hermes.desk.tick()
    assert hermes.work() == 1


def test_a_card_asked_for_again_is_claimed_only_if_its_poll_still_wants_it(team, hermes) -> None:
    hermes.wants = lambda card, _now: card.title != "not for Hermes"
    card_id = team.add()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    team.clock.advance(timedelta(minutes=1))
    team.retitle(card_id, "not for Hermes")
    team.move(card_id, "Todo")
    for _ in range(3):
        hermes.poll()
        team.clock.advance(timedelta(minutes=1))
    assert team.status(card_id) is CardStatus.todo
    assert len(hermes.runs()) == 1
    team.retitle(card_id, "for Hermes after all")
    hermes.poll()
    assert hermes.run_of(card_id).key == f"{card_id}:2:act"


@pytest.mark.parametrize(("code", "status"), [("unauthorized", 401), ("internal_server_error", 500)])
def test_a_desk_does_not_ask_at_every_tick_a_board_that_does_not_answer(team, hermes, code, status) -> None:
    team.add()
    team.add()
    hermes.poll()
    team.clock.advance(timedelta(minutes=1))
    hermes.work()
    query = "POST /v1/data_sources/{data_source_id}/query"
    team.fault(kind="answer", route=query, times=-1, status=status, code=code, message="no")
    asked, ask = [], hermes.board.open_cards
    hermes.board.open_cards = lambda: asked.append(1) or ask()
    for _ in range(8):
        hermes.desk.tick()
        team.clock.advance(timedelta(seconds=1))
    assert len(asked) <= 2
    team.clear_faults()
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert len(hermes.lease()) == 1


def test_a_run_two_levels_below_a_card_brings_the_card_along_when_it_is_resumed(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    leased = hermes.lease()[0]
    ids = [leased.run.id]
    for level in ("child", "grandchild"):
        new = NewRun(key=level, kind=RunKind.function, function="work", args={}, parent_run_id=leased.run.id)
        step = NewStep(1, StepKind.child, "work", args_json=level, child=new)
        with hermes.store.write() as uow:
            uow.endings.hibernate(leased.lease, None, "waits", awaits=[1], pending=Pending((step,)))
        leased = hermes.lease()[0]
        ids.append(leased.run.id)
    for reason in ("look at me", "below", "below"):
        hermes.end(leased, RunState.parked, reason=reason)
        leased = next(iter(hermes.lease()), leased)
    hermes.desk.tick()
    assert hermes.run_of(card_id).state is RunState.parked
    app = SimpleNamespace(store=hermes.store)
    assert resume_run(app, ids[-1], by="test") is Resumed.resumed
    assert hermes.run_of(card_id).held, "not before its card is claimed again"
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.in_progress
    for _ in range(3):
        hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


# -- places


def free_places(hermes) -> int:
    with hermes.store.read() as uow:
        return uow.places.free_places("tasks")


def test_a_card_that_is_gone_when_it_is_claimed_leaves_its_place_to_others(team, hermes) -> None:
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    team.trash(card_id)
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.gone
    assert free_places(hermes) == 1


def test_a_process_that_stood_still_takes_no_place_for_a_card_that_another_has_finished(
    team, hermes, monkeypatch
) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    team.clock.advance(timedelta(seconds=31))
    read, stood_still = hermes.board.read, []

    def reads_and_stands_still(*args):
        card = read(*args)
        if not stood_still:
            stood_still.append(True)
            team.clock.advance(HOLD)
            other = hermes.another_desk("boot-2")
            other.tick()
            assert hermes.work() == 1
            other.tick()
            assert free_places(hermes) == 1
        return card

    monkeypatch.setattr(hermes.board, "read", reads_and_stands_still)
    hermes.desk.tick()
    assert stood_still
    assert team.status(card_id) is CardStatus.complete
    assert free_places(hermes) == 1
