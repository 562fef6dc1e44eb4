from __future__ import annotations

from hermes.model.card import CardStatus


def test_a_round_works_every_card_and_ends(place) -> None:
    ids = [place.add(f"card {number}") for number in range(5)]
    done = place.call("--log-level", "error", "run-once", "--wait", "2", "--json")
    assert done.code == 0, done.said
    assert done.json["ok"] is True
    assert [poll["poll_id"] for poll in done.json["polls"]] == ["tasks"]
    assert len(done.json["ended"]) == 5
    assert {place.card(card_id).status for card_id in ids} == {CardStatus.complete}


def test_nothing_due_is_no_failure(place) -> None:
    place.work()
    done = place.ok("--log-level", "error", "run-once", "--wait", "0")
    assert "No poll was due" in done.out


def test_a_failed_run_ends_with_1(place) -> None:
    assert place.work("fail this").code == 1
    assert place.work().code == 0, "the failure is not this round's"


def test_a_sleeping_run_is_not_waited_for(place) -> None:
    card_id = place.add("sleep on")
    assert place.work().code == 0
    card = place.card(card_id)
    assert card.status is CardStatus.in_progress
    assert card.claim_expires_at is not None


def test_an_unknown_poll_does_nothing(place) -> None:
    outcome = place.call("run-once", "taks")
    assert outcome.code == 3
    assert "Did you mean 'tasks'?" in outcome.err


def test_only_the_named_polls_run(place) -> None:
    place.write_poll("other", filter='record.title == "never"')
    done = place.ok("--log-level", "error", "run-once", "other", "--wait", "0", "--json").json
    assert [poll["poll_id"] for poll in done["polls"]] == ["other"]
    health = {poll["poll_id"]: poll["health"] for poll in place.ok("polls", "list", "--json").json["polls"]}
    assert health == {"other": "ok", "tasks": "new"}
