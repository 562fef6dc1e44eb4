from __future__ import annotations

import json


def test_polls_that_no_process_has_seen_are_listed_as_new(place) -> None:
    outcome = place.ok("polls", "list")
    assert "tasks" in outcome.out
    assert "no process has seen it yet" in outcome.out
    assert not (place.folder / "data" / "hermes.db").exists(), "a list makes no database"
    assert place.ok("polls", "list", "--json").json["polls"] == [{"poll_id": "tasks", "health": "new", "status": None}]


def test_an_empty_configuration_says_what_to_do(place) -> None:
    (place.config / "polls" / "tasks.yaml").unlink()
    assert "put one into the polls/ folder" in place.ok("polls", "list").out


def test_list_and_show_tell_health_next_due_and_cards(place) -> None:
    place.work("sleep a little")
    (poll,) = place.ok("polls", "list", "--json").json["polls"]
    assert (poll["poll_id"], poll["health"], poll["waiting"], poll["claimed"]) == ("tasks", "ok", 0, 1)
    assert poll["next_due_at"].endswith("Z")
    shown = place.ok("polls", "show", "tasks")
    assert "last ok" in shown.out
    assert "OCCURRENCE" in shown.out
    assert place.ok("polls", "show", "tasks", "--json").json["occurrences"][0]["state"] == "ok"


def test_a_poll_whose_board_is_away_is_failing_with_the_cause(place) -> None:
    place.work()
    content = json.loads((place.config / "hermes.yaml").read_text())
    place.write_hermes(
        connections={**content["connections"], "away": {"type": "notion", "base_url": "http://127.0.0.1:9"}},
        boards={"team": {"connection": "away", "board": "0" * 32}},
    )
    outcome = place.call("--log-level", "error", "run-once", "tasks", "--wait", "0")
    assert outcome.code == 1
    (poll,) = place.ok("polls", "list", "--json").json["polls"]
    assert poll["health"] == "failing"
    assert poll["failing_since"]
    shown = place.ok("polls", "show", "tasks").out
    assert "failing since" in shown
    assert "cause" in shown


def test_pause_and_resume_are_done_once(place) -> None:
    place.work()
    assert "is paused." in place.ok("polls", "pause", "tasks").out
    assert "is paused already" in place.ok("polls", "pause", "tasks").out
    assert place.ok("polls", "list", "--json").json["polls"][0]["health"] == "paused"
    assert "goes on" in place.ok("polls", "resume", "tasks").out
    assert "active already" in place.ok("polls", "resume", "tasks").out


def test_an_unknown_poll_ends_with_3_and_the_near_ones(place) -> None:
    place.work()
    for verb in ("show", "run", "pause", "resume"):
        outcome = place.call("polls", verb, "taskz")
        assert outcome.code == 3
        assert "Did you mean 'tasks'?" in outcome.err


def test_run_asks_for_it_and_wait_says_when_nobody_does_it(place) -> None:
    place.work()
    assert "asked to run" in place.ok("polls", "run", "tasks").out
    outcome = place.call("polls", "run", "tasks", "--wait", "0.2")
    assert outcome.code == 1
    assert "is a `hermes-poll up` running" in outcome.err


def test_a_poll_switched_off_in_its_file_says_so(place) -> None:
    place.write_poll("tasks", enabled=False)
    place.work()
    outcome = place.call("polls", "resume", "tasks")
    assert outcome.code == 1
    assert "enabled: false" in outcome.err


def test_a_broken_poll_file_does_not_hide_the_others(place) -> None:
    (place.config / "polls" / "broken.yaml").write_text("poll: broken\nschedul: 1\n")
    outcome = place.ok("polls", "list")
    assert "tasks" in outcome.out
    assert "config/polls/broken.yaml:2:1" in outcome.err


def test_changes_are_told_as_json_too(place) -> None:
    place.work()
    assert place.ok("polls", "pause", "tasks", "--json").json == {"poll": "tasks", "asked": "pause", "changed": True}
    assert place.ok("polls", "pause", "tasks", "--json").json["changed"] is False
    assert place.ok("polls", "resume", "tasks", "--json").json["changed"] is True
    assert place.ok("polls", "run", "tasks", "--json").json == {"poll": "tasks", "asked": "run"}
