from __future__ import annotations

import pytest

from hermes.app import App
from hermes.model.card import CardStatus
from hermes.model.run import NewRun, RunKind, RunState


def test_no_runs_yet(place) -> None:
    assert "No runs yet" in place.ok("runs", "list").out
    assert place.ok("runs", "list", "--json").json == {"runs": []}
    place.work()
    assert "No runs yet" in place.ok("runs", "list").out


def test_list_filters(place) -> None:
    outcome = place.work("good", "fail please", "refuse this")
    assert outcome.code == 1, "a run failed"

    def titles(*options: str) -> set[str]:
        return {run["title"] for run in place.ok("runs", "list", "--json", *options).json["runs"]}

    assert titles() == {"good", "fail please", "refuse this"}
    assert titles("--failed") == {"fail please"}
    assert titles("--state", "succeeded", "--state", "refused") == {"good", "refuse this"}
    assert titles("--card", "GOOD") == {"good"}
    assert titles("--poll", "other") == set()
    assert len(place.ok("runs", "list", "--json", "--limit", "1").json["runs"]) == 1
    assert "No such runs" in place.ok("runs", "list", "--parked").out
    wrong = place.call("runs", "list", "--state", "done")
    assert wrong.code == 2
    assert "succeeded" in wrong.err
    assert place.call("runs", "list", "--card", "goof").code == 3


def test_show_finds_by_id_beginning_key_card_and_title(place) -> None:
    place.work("good")
    run = place.runs()["good"]
    for name in (run.id, run.id[:8], run.key, run.object_id, "good", "GOO"):
        assert place.ok("runs", "show", name, "--json").json["run"]["id"] == run.id
    shown = place.ok("runs", "show", run.id).out
    for word in ("succeeded", "Timeline", "enqueued", "cli_tasks.count", "Written to its card", "claim", "finish"):
        assert word in shown
    whole = place.ok("runs", "show", run.id, "--json").json
    assert whole["steps"][0]["name"].endswith("count")
    assert [write["kind"] for write in whole["board_log"]] == ["claim", "result", "finish"]


def test_a_name_that_means_several_lists_them(place) -> None:
    place.work("twin one", "twin two")
    outcome = place.call("runs", "show", "twin")
    assert outcome.code == 3
    assert outcome.err.count("succeeded") == 2
    outcome = place.call("runs", "show", "twin onne")
    assert outcome.code == 3
    assert "Did you mean 'twin one', 'twin two'?" in outcome.err


def test_escapes_in_titles_and_errors_do_not_reach_the_terminal(place) -> None:
    place.work("fail \x1b]0;owned\x07\x1b[2J\u202eevil")
    for command in (("runs", "list"), ("runs", "show", "fail"), ("runs", "list", "--json"), ("board", "show", "--all")):
        out = place.ok(*command).out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert "broke" in place.ok("runs", "show", "fail").out


def test_a_failed_card_is_resumed_once_and_claimed_again(place) -> None:
    place.work("fail at first")
    run = place.runs()["fail at first"]
    assert run.state is RunState.failed
    assert "goes on once its card is claimed again" in place.ok("runs", "resume", run.id).out
    again = place.ok("runs", "resume", run.id)
    assert "already" in again.out
    run = place.runs()["fail at first"]
    assert (run.state, run.held) == (RunState.ready, True)
    assert place.ok("board", "show", "--json").json["cards"][0]["state"] == "backoff"
    place.work()
    after = place.ok("runs", "show", run.id, "--json").json
    assert [write["kind"] for write in after["board_log"]].count("claim") == 2
    assert after["run"]["state"] == "failed"
    assert sum(entry["what"] == "resumed" for entry in after["timeline"]) == 1


def test_a_succeeded_run_cannot_be_resumed(place) -> None:
    place.work("good")
    outcome = place.call("runs", "resume", "good")
    assert outcome.code == 1
    assert "nothing to resume" in outcome.err


def test_a_step_in_doubt_needs_a_decision(place) -> None:
    card_id = place.add("doubtful")
    place.work()
    run = place.runs()["doubtful"]
    assert run.state is RunState.parked
    outcome = place.call("runs", "resume", run.id)
    assert outcome.code == 2
    assert "tell_the_bank" in outcome.err
    assert "--as-done" in outcome.err
    assert place.call("runs", "resume", run.id, "--as-done", "--again").code == 2
    assert place.call("runs", "resume", run.id, "--as-done", "--result", "{").code == 2
    assert place.runs()["doubtful"].state is RunState.parked
    place.ok("runs", "resume", run.id, "--as-done", "--result", '"paid"')
    place.work()
    assert place.runs()["doubtful"].result == "paid"
    assert place.card(card_id).status is CardStatus.complete


def test_cancel_is_done_once_and_shown_on_the_card(place) -> None:
    card_id = place.add("sleep, to be cancelled")
    place.work()
    run = place.runs()["sleep, to be cancelled"]
    assert run.state is RunState.waiting
    assert "is cancelled." in place.ok("runs", "cancel", run.id, "--reason", "no longer wanted").out
    assert "cancelled already" in place.ok("runs", "cancel", run.id).out
    place.work()
    card = place.card(card_id)
    assert card.status is CardStatus.failed
    assert "no longer wanted" in (card.last_error or "")


def test_a_run_that_is_over_cannot_be_cancelled(place) -> None:
    place.work("good")
    outcome = place.call("runs", "cancel", "good")
    assert outcome.code == 1
    assert "succeeded" in outcome.err


def test_a_run_whose_card_was_asked_for_again_is_not_resumed_beside_the_new_one(place) -> None:
    card_id = place.add("fail one")
    place.work()
    old = place.runs()["fail one"]
    status = {"Status": {"select": {"name": "Todo"}}}
    place.on_board(lambda _app, board: board.client.write("PATCH", f"pages/{card_id}", {"properties": status}))
    place.work()
    outcome = place.call("runs", "resume", old.id)
    assert outcome.code == 1
    assert "Nothing was changed" in outcome.err
    assert place.ok("runs", "show", old.id, "--json").json["run"]["state"] == "failed"


@pytest.mark.parametrize("resumed", ["parent", "child"])
def test_resuming_what_a_card_awaits_claims_the_card_again(place, resumed) -> None:
    """A parked effect parks the card's run that awaits it; either may be named."""
    place.write_poll("tasks", action={"type": "function", "function": "cli_tasks.pay"})
    card_id = place.add("pay the rent")
    place.work()
    run = place.runs()["pay the rent"]
    assert run.state is RunState.parked
    (child,) = place.ok("runs", "show", run.id, "--json").json["children"]
    name = run.id if resumed == "parent" else child["id"]
    place.ok("runs", "resume", name, "--as-done", "--result", '"paid"')
    assert place.ok("board", "show", "--json").json["cards"][0]["state"] == "backoff"
    place.work()
    assert place.runs()["pay the rent"].result == "paid"
    assert place.card(card_id).status is CardStatus.complete


def test_a_plain_run_is_resumed_at_once(place) -> None:
    place.work()
    app = App.load(place.config)
    with app.store.write() as uow:
        run_id, _ = uow.runs.enqueue(NewRun("a-key", RunKind.function, "nobody.knows", {}))
        uow.runs.cancel(run_id, "for the test")
    app.close()
    place.ok("runs", "resume", "a-key")
    shown = place.ok("runs", "show", "a-key", "--json").json["run"]
    assert (shown["state"], shown["held"]) == ("ready", False)
