"""People win: what they do to a card is respected, also while it is worked on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.model.card import CardStatus
from hermes.model.claim import ClaimState
from hermes.model.run import RunError, RunState

pytestmark = pytest.mark.sqlite_is_enough


@pytest.mark.parametrize("status", ["Cancelled", "Complete"])
def test_W5_a_card_moved_during_its_run_stays_where_it_was_put(team, hermes, status) -> None:
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    team.move(card_id, status)
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()  # the query does not show the card: a GET sees the move
    run = hermes.run_of(card_id)
    assert run.cancel_reason is not None
    assert status in run.cancel_reason
    hermes.end(leased, RunState.cancelled, reason=run.cancel_reason)
    hermes.desk.tick()
    assert team.card(card_id).status_name == status
    assert hermes.state(card_id) is ClaimState.done


def test_W5_a_move_is_seen_at_the_next_extension_without_an_extra_call(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.lease()
    team.move(card_id, "Cancelled")
    team.forget_calls()
    team.clock.advance(timedelta(minutes=11))
    hermes.desk.tick()
    assert hermes.run_of(card_id).cancel_reason is not None
    assert team.calls_of(card_id) == {"PATCH /v1/pages/{page_id}": 1}
    assert team.card(card_id).status_name == "Cancelled"


def test_W5_a_card_moved_when_its_run_had_just_ended_keeps_the_persons_choice(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    team.move(card_id, "Cancelled")
    hermes.desk.tick()
    assert team.card(card_id).status_name == "Cancelled"


def test_W5_a_running_card_moved_back_to_todo_stops_then_starts_as_a_new_generation(team, hermes) -> None:
    hermes.configure(max_concurrent=3)
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    first = hermes.run_of(card_id)
    team.move(card_id, "Todo")
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert len(hermes.runs()) == 1, "never both at once"
    hermes.end(leased, RunState.cancelled, reason="moved")
    hermes.desk.tick()
    second = hermes.run_of(card_id)
    assert second.id != first.id
    assert (first.key, second.key) == (f"{card_id}:1:act", f"{card_id}:2:act")
    assert team.status(card_id) is CardStatus.in_progress


def test_W5_a_trashed_card_stops_its_run_and_a_restored_one_is_asked_for_again(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    team.trash(card_id)
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert "trash" in (hermes.run_of(card_id).cancel_reason or "")
    hermes.end(leased, RunState.cancelled, reason="trash")
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.gone
    team.client.write("PATCH", f"pages/{card_id}", {"in_trash": False})
    team.move(card_id, "Todo")
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    hermes.poll()
    assert hermes.run_of(card_id).key == f"{card_id}:2:act"


def test_a_card_that_is_not_shared_any_more_stops_its_run(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    gone = {"status": 404, "code": "object_not_found", "message": "Could not find page"}
    team.fault(kind="answer", route="PATCH /v1/pages/{page_id}", page_id=card_id, times=-1, **gone)
    team.fault(kind="answer", route="GET /v1/pages/{page_id}", page_id=card_id, times=-1, **gone)
    team.clock.advance(timedelta(minutes=11))
    hermes.desk.tick()
    assert hermes.run_of(card_id).cancel_reason is not None
    hermes.end(leased, RunState.cancelled, reason="gone")
    hermes.desk.tick()
    assert hermes.state(card_id) is ClaimState.gone


def test_a_finished_card_put_back_to_todo_is_done_again_under_a_new_key(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    hermes.poll()
    hermes.poll()
    assert hermes.run_of(card_id).key == f"{card_id}:2:act"
    hermes.work()
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.complete


def test_a_stale_query_never_asks_for_a_finished_card_again(team, hermes) -> None:
    card_id = team.add()
    team.fault(kind="query", route="POST /v1/data_sources/{data_source_id}/query", times=-1, stale=[card_id])
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    for _ in range(3):
        team.clock.advance(timedelta(minutes=1))
        hermes.poll()  # shows it in Todo still
    assert len(hermes.runs()) == 1
    assert team.status(card_id) is CardStatus.complete


def test_a_parked_card_put_back_to_todo_goes_on_under_its_key(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.parked, reason="the code changed")
    hermes.desk.tick()
    run = hermes.run_of(card_id)
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    hermes.poll()
    assert team.status(card_id) is CardStatus.in_progress
    hermes.work()
    hermes.desk.tick()
    assert hermes.run_of(card_id).id == run.id
    assert team.status(card_id) is CardStatus.complete


def test_text_edited_between_two_deliveries_starts_afresh(team, hermes) -> None:
    card_id = team.add("old text")
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    team.retitle(card_id, "new text")
    team.clock.advance(timedelta(seconds=31))
    hermes.desk.tick()
    newest = hermes.run_of(card_id)
    assert newest.key == f"{card_id}:2:act"
    assert newest.args["title"] == "new text"
    assert [run.state for run in hermes.runs() if run.id != newest.id] == [RunState.cancelled]


def test_on_edit_keep_goes_on_with_the_old_text(team, hermes) -> None:
    hermes.configure(restart_on_edit=False)
    card_id = team.add("old text")
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    team.retitle(card_id, "new text")
    team.clock.advance(timedelta(seconds=31))
    hermes.desk.tick()
    assert hermes.run_of(card_id).args["title"] == "old text"
    assert team.status(card_id) is CardStatus.in_progress


def test_text_edited_during_the_run_is_answered_with_one_comment(team, hermes) -> None:
    card_id = team.add("old text")
    hermes.poll()
    hermes.lease()
    team.retitle(card_id, "new text")
    for _ in range(30):
        team.clock.advance(timedelta(minutes=1))
        hermes.desk.tick()
    assert len(team.comments(card_id)) == 1
    assert "edited" in team.comments(card_id)[0]


def test_a_card_moved_away_during_its_backoff_is_left_alone(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.fail_once()
    hermes.desk.tick()
    team.move(card_id, "Cancelled")
    team.clock.advance(timedelta(seconds=31))
    hermes.desk.tick()
    assert team.card(card_id).status_name == "Cancelled"
    assert hermes.run_of(card_id).state is RunState.cancelled


def test_a_run_id_changed_by_hand_is_put_right_at_the_next_extension(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.lease()
    run_id = hermes.run_of(card_id).id
    team.edit(card_id, RunId={"rich_text": [{"text": {"content": "nonsense"}}]})
    team.clock.advance(timedelta(minutes=11))
    hermes.desk.tick()
    assert team.card(card_id).run_id == run_id


def test_a_copied_card_is_a_card_of_its_own(team, hermes) -> None:
    original = team.add()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    done = team.card(original)
    copy = team.add(
        "A card", RunId={"rich_text": [{"text": {"content": done.run_id}}]},
        ClaimedBy={"rich_text": [{"text": {"content": done.claimed_by}}]},
    )  # fmt: skip
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert hermes.run_of(copy).key == f"{copy}:1:act"
    assert team.card(copy).run_id != done.run_id


def test_a_card_a_person_works_on_is_not_ours(team, hermes) -> None:
    card_id = team.add()
    team.move(card_id, "InProgress")
    taken = hermes.poll()
    assert taken.stopped is None
    assert hermes.runs() == []
    assert team.status(card_id) is CardStatus.in_progress


def test_a_delivery_that_fails_after_a_person_took_the_card_is_not_shown_as_a_retry(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    (leased,) = hermes.lease()
    team.move(card_id, "Cancelled")
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    with hermes.store.write() as uow:
        uow.endings.redeliver(leased.lease, RunError("RuntimeError", "boom"), uow.now + timedelta(hours=1))
    run = hermes.run_of(card_id)
    assert (run.held, run.due_at) == (False, team.clock.now())
    (leased,) = hermes.lease()
    hermes.end(leased, RunState.cancelled, reason=run.cancel_reason)
    hermes.desk.tick()
    assert team.card(card_id).status_name == "Cancelled"


def test_a_board_that_refuses_comments_keeps_no_ending_back(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.failed, error=RunError("ValueError", "no such file"))
    refused = {"status": 403, "code": "restricted_resource", "message": "Insufficient permissions"}
    team.fault(kind="answer", route="POST /v1/comments", times=-1, **refused)
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.failed
    assert hermes.state(card_id) is ClaimState.done


def test_a_comment_that_was_not_answered_is_written_once(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.failed, error=RunError("ValueError", "no such file"))
    team.fault(kind="drop", route="POST /v1/comments")
    hermes.desk.tick()
    assert team.status(card_id) is CardStatus.failed
    team.clock.advance(timedelta(seconds=66))
    hermes.desk.tick()
    assert len(team.comments(card_id)) == 1
    assert hermes.state(card_id) is ClaimState.done


class Died(BaseException):
    """Stands for kill -9 in this thread."""


def test_a_move_to_todo_is_not_taken_for_a_retry_of_ours_that_was_never_sent(team, hermes, monkeypatch) -> None:
    """Found by the model (PEOPLE): a write that was logged and never landed explained the person's Todo."""
    card_id = team.add()
    hermes.poll()
    hermes.fail_once(after=timedelta(seconds=1))

    def die(*_args, **_how):
        monkeypatch.undo()
        raise Died

    monkeypatch.setattr(hermes.board, "write", die)
    with pytest.raises(Died):
        hermes.desk.tick()
    team.move(card_id, "Todo")
    hermes.restart("boot-2")
    team.clock.advance(timedelta(seconds=131))
    hermes.desk.tick()
    hermes.poll()
    assert team.status(card_id) is CardStatus.in_progress
    assert hermes.run_of(card_id).key == f"{card_id}:2:act"


def test_what_was_decided_under_a_hold_is_not_written_after_it(team, hermes, monkeypatch) -> None:
    """Found by the model (WINDOW): suspended for hours between the GET and the logging, with no other process there."""
    card_id = team.add()
    hermes.poll()
    hermes.work()
    original = hermes.board.read

    def read(asked):
        shown = original(asked)
        monkeypatch.undo()
        team.clock.advance(timedelta(hours=8))
        team.move(card_id, "Cancelled")
        return shown

    monkeypatch.setattr(hermes.board, "read", read)
    hermes.desk.tick()
    hermes.desk.tick()
    assert team.card(card_id).status_name == "Cancelled"
    assert hermes.state(card_id) is ClaimState.done
