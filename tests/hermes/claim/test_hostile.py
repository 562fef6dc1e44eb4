"""What anybody may write into a card: it costs that card at most, never the board, a key or an effect."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

import sources.notion.task_board
from evaluators.filter import CelCompiler
from hermes.claim.adopt import foreign_claims
from hermes.errors import Misconfigured
from hermes.model.card import CardStatus
from hermes.model.claim import ClaimState
from hermes.model.run import RunState

pytestmark = pytest.mark.sqlite_is_enough


def text(content: str) -> dict[str, object]:
    return {"rich_text": [{"text": {"content": content}}]}


def day(start: str) -> dict[str, object]:
    return {"date": {"start": start}}


ABSURD = {
    "an expiry after the last year": {"ClaimExpiresAt": day("9999-12-31T23:59:00-12:00")},
    "an expiry before the first year": {"ClaimExpiresAt": day("0001-01-01T00:00:00+14:00")},
    "a claim before the first year": {"ClaimedAt": day("0001-01-01T00:00:00+14:00")},
    "too many retries": {"RetryCount": {"number": 1e308}},
    "negative retries": {"RetryCount": {"number": -3}},
    "a run id like an option": {"RunId": text("--help")},
    "templates": {"Description": text("{record.title} {0.__class__} %s ${HOME}\n```\n~~~")},
    "terminal": {"Description": text("\x1b[2J\x1b]0;x\x07\u202e\r\n")},
    "no title": {"Name": {"title": []}},
}


@pytest.mark.parametrize("values", ABSURD.values(), ids=ABSURD)
def test_absurd_values_in_a_card_stop_neither_it_nor_the_board(team, hermes, values) -> None:
    judged = CelCompiler().compile("record.retry_count < 5 || size(record.title) >= 0")
    hermes.wants = lambda card, now: judged.matches(card, {"id": "tasks"}, now)
    hermes.configure(max_concurrent=5)
    cards = [team.add("absurd", **values), team.add("behind it")]
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    assert [team.status(card) for card in cards] == [CardStatus.complete] * 2


HALF = "\ud800"


@pytest.mark.parametrize("where", ["plain_text", "name", "url"])
def test_T18_half_a_surrogate_pair_in_an_answer_stops_nothing(team, hermes, monkeypatch, where) -> None:
    """The local board refuses them; what Notion does is not known."""
    real = sources.notion.task_board.to_card

    def answered(page, columns):
        raw = json.dumps(page)
        return real(json.loads(raw.replace(f'"{where}": "', f'"{where}": "\\ud800')), columns)

    monkeypatch.setattr(sources.notion.task_board, "to_card", answered)
    hermes.configure(max_concurrent=5)
    card_id = team.add("half", Description=text("half"))
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.claimed
    assert HALF not in json.dumps(hermes.run_of(card_id).args, ensure_ascii=False)


@pytest.mark.parametrize("expiry", ["0001-01-01", "9999-12-31"])
def test_an_expiry_written_over_ours_is_not_believed(team, expiry) -> None:
    """Between a shared claim and its read-back."""
    first = team.installation("first")
    card_id = team.add()
    first.poll()
    assert first.state(card_id) is ClaimState.settling
    team.edit(card_id, ClaimExpiresAt=day(expiry))
    team.clock.advance(timedelta(seconds=13))
    first.desk.tick()
    assert first.state(card_id) is ClaimState.claimed
    team.clock.advance(timedelta(minutes=11))
    first.desk.tick()
    shown = team.card(card_id).claim_expires_at
    assert shown is not None
    assert timedelta(0) < shown - team.clock.now() < timedelta(hours=1)


def test_a_person_who_writes_her_name_into_claimed_by_stops_nothing(team, hermes) -> None:
    hers = team.add("hers", ClaimedBy=text("Maria"), Status={"select": {"name": "InProgress"}})
    waiting = team.add("waiting")
    team.clock.advance(timedelta(minutes=1))
    assert hermes.poll().stopped is None
    assert team.status(waiting) is CardStatus.in_progress
    assert team.card(hers).claimed_by == "Maria"
    assert foreign_claims(hermes.store, hermes.board, hermes.identity, shared=False) == [], "hers is not given back"


def test_a_name_written_over_our_claim_is_put_right_at_the_next_poll(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.lease()
    team.edit(card_id, ClaimedBy=text("Maria"))
    team.clock.advance(timedelta(minutes=1))
    assert hermes.poll().stopped is None
    assert team.card(card_id).claimed_by == hermes.identity.claimed_by
    assert hermes.run_of(card_id).cancel_reason is None


@pytest.mark.parametrize("finished", [True, False])
def test_a_copy_of_a_claimed_card_stops_nothing_and_is_said(team, hermes, finished) -> None:
    original = team.add("the original")
    hermes.poll()
    claimed = team.card(original)
    if finished:
        hermes.work()
        hermes.desk.tick()
    team.add(
        "the copy", RunId=text(claimed.run_id), ClaimedBy=text(claimed.claimed_by),
        Status={"select": {"name": "InProgress"}},
    )  # fmt: skip
    waiting = team.add("waiting")
    hermes.configure(max_concurrent=5)
    team.clock.advance(timedelta(minutes=1))
    taken = hermes.poll()
    assert taken.stopped is None
    assert taken.refused == ["the copy: it carries another card's claim (copied?) and nobody works on it"]
    assert team.status(waiting) is CardStatus.in_progress


def test_a_card_asked_for_again_and_then_taken_by_a_person_stops_nothing(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work()
    hermes.desk.tick()
    team.add("fills the only place")
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    team.move(card_id, "Todo")
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.candidate
    team.move(card_id, "InProgress")
    team.clock.advance(timedelta(minutes=1))
    assert hermes.poll().stopped is None
    assert hermes.state(card_id) is ClaimState.idle


def test_the_words_that_stop_a_board_stay_short_and_on_one_line(team, hermes) -> None:
    team.add(
        "t\r\n" * 600,
        ClaimedBy=text("hermes/" + "\x1b[31m\u202e" * 200 + ":boot"), Status={"select": {"name": "InProgress"}},
    )  # fmt: skip
    stopped = hermes.poll().stopped
    assert stopped is not None
    assert stopped.isprintable()
    assert len(stopped) < 500
    assert stopped.endswith("hermes-poll board adopt")


@pytest.mark.parametrize("run_id", ["", "of another card"])
def test_a_parked_run_keeps_its_key_whatever_a_person_did_to_the_run_id(team, hermes, run_id) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.work(RunState.parked, reason="nobody knows whether it was sent")
    hermes.desk.tick()
    run = hermes.run_of(card_id)
    team.edit(card_id, RunId=text(run_id) if run_id else {"rich_text": []})
    team.clock.advance(timedelta(minutes=1))
    team.move(card_id, "Todo")
    hermes.poll()
    assert hermes.run_of(card_id).id == run.id
    assert len(hermes.runs()) == 1


def test_terminal_sequences_of_an_error_are_not_written_to_the_board(team, hermes) -> None:
    card_id = team.add()
    hermes.poll()
    hermes.fail_once("\x1b]0;owned\x07 rm -rf\x08")
    hermes.desk.tick()
    error = team.card(card_id).last_error or ""
    assert "rm -rf" in error
    assert not any(letter < " " for letter in error)


def test_B4_a_column_that_is_put_back_is_seen_at_the_next_poll(team, hermes) -> None:
    """It has another id then. Seen only when the schema is old, the poll would be disabled before."""
    source = f"data_sources/{team.board.key}"
    team.client.write("PATCH", source, {"properties": {"RunId": None}})
    card_id = team.add()
    with pytest.raises(Misconfigured, match="RunId"):
        hermes.poll()
    team.client.write("PATCH", source, {"properties": {"RunId": {"rich_text": {}}}})
    team.clock.advance(timedelta(minutes=1))
    hermes.poll()
    assert hermes.state(card_id) is ClaimState.claimed


REFUSED = {"status": 400, "code": "validation_error", "message": "This page has content that is not supported."}
BODY, APPEND = "GET /v1/pages/{page_id}/markdown", "PATCH /v1/blocks/{block_id}/children"


def refused(team, hermes, route: str, **fault) -> tuple[str, list[str]]:
    hermes.configure(max_concurrent=5, read_body=True)
    odd = team.add("odd")
    team.fault(kind="answer", route=route, page_id=odd, times=-1, **fault)
    others = []
    for _ in range(3):
        others.append(team.add("another"))
        hermes.poll()
        hermes.work(result="the answer")
        hermes.desk.tick()
        team.clock.advance(timedelta(seconds=61))
    return odd, others


def test_a_page_that_cannot_be_read_costs_its_card_alone(team, hermes) -> None:
    odd, others = refused(team, hermes, BODY, **REFUSED)
    assert {team.status(card) for card in others} == {CardStatus.complete}
    assert team.status(odd) is CardStatus.failed
    assert "its page cannot be read" in (team.card(odd).last_error or "")
    team.clear_faults()
    team.move(odd, "Todo")
    hermes.poll()
    assert hermes.state(odd) is ClaimState.claimed


def test_a_page_that_takes_no_result_gets_its_ending(team, hermes) -> None:
    odd, others = refused(team, hermes, APPEND, **REFUSED)
    assert {team.status(card) for card in [odd, *others]} == {CardStatus.complete}


def test_a_page_that_is_never_answered_is_shown_in_the_end(team, hermes) -> None:
    odd, others = refused(team, hermes, BODY, status=500, code="internal_server_error", message="Unexpected error.")
    assert {team.status(card) for card in others} == {CardStatus.complete}
    for _ in range(15):
        team.clock.advance(timedelta(minutes=6))
        hermes.poll()
    assert "its page cannot be read" in (team.card(odd).last_error or "")


def test_a_body_is_not_read_without_the_right_to_and_stops_the_board(team, hermes) -> None:
    forbidden = {"status": 403, "code": "restricted_resource", "message": "Insufficient permissions."}
    odd, _ = refused(team, hermes, BODY, **forbidden)
    assert team.card(odd).last_error is None
    with hermes.store.read() as uow:
        assert "capability" in (uow.claims.board(hermes.board.key).problem or "")
