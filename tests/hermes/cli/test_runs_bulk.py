"""`runs resume` and `runs cancel` for many: chosen by name or by options, tried first, asked for, done once each."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.model.run import EffectClass, RunState


@pytest.fixture
def state(rows):
    def of(key: str) -> RunState:
        with rows.app.store.read() as uow:
            return uow.runs.by_key(key).state

    return of


@pytest.fixture
def timelines(rows):
    def count() -> int:
        with rows.app.store.read() as uow:
            return sum(len(uow.runs.timeline(run.id)) for run in uow.runs.list(limit=100))

    return count


def test_a_dry_run_says_what_would_come_of_it_and_changes_nothing(place, rows, state, timelines) -> None:
    rows.end("a", RunState.failed)
    rows.end("b", RunState.failed)
    rows.end("c", RunState.succeeded)
    waiting = rows.await_event("w", "E", "1", None)
    before = timelines()
    said = place.ok("runs", "resume", "--failed", "--all", "--dry-run").out
    assert "2 changed" in said
    assert "Nothing was changed" in said
    assert place.ok("runs", "resume", "a", "--dry-run", "--json").json["changed"] == 1
    assert "1 changed" in place.ok("runs", "cancel", waiting, "--dry-run").out
    assert state("w") is RunState.waiting
    assert (state("a"), state("b")) == (RunState.failed, RunState.failed)
    assert timelines() == before


def test_all_that_fit_are_resumed_once(place, rows, state) -> None:
    rows.end("a", RunState.failed, message="the bank is closed")
    rows.end("b", RunState.failed, message="no such customer")
    rows.end("c", RunState.failed, message="the bank is closed")
    done = place.ok("runs", "resume", "--failed", "--error", "BANK", "--all", "--yes", "--json").json
    assert [(one["key"], one["came"]) for one in done["runs"]] == [("a", "changed"), ("c", "changed")]
    assert (state("a"), state("b"), state("c")) == (RunState.ready, RunState.failed, RunState.ready)
    again = place.ok("runs", "resume", "a", "c", "--json").json
    assert (again["changed"], again["already"], again["refused"]) == (0, 2, 0)


def test_limit_takes_the_oldest(place, rows, state) -> None:
    for key in ("a", "b", "c"):
        rows.end(key, RunState.failed)
    place.ok("runs", "resume", "--failed", "--all", "--limit", "2", "--yes")
    assert [state(key) for key in "abc"] == [RunState.ready, RunState.ready, RunState.failed]


def test_many_pages_are_chosen_whole(rows) -> None:
    from hermes import bulk
    from hermes.ports.survey import RunFilter

    for number in range(7):
        rows.enqueue(f"k{number}")
    wanted = RunFilter()
    pages = bulk.PAGE
    bulk.PAGE = 3
    try:
        assert [run.key for run in bulk.choose(rows.app, wanted)] == [f"k{number}" for number in range(7)]
        assert [run.key for run in bulk.choose(rows.app, wanted, 5)] == [f"k{number}" for number in range(5)]
    finally:
        bulk.PAGE = pages


def test_a_person_is_asked_and_may_say_no(place, rows, state) -> None:
    rows.end("a", RunState.failed)
    said = place.ok("runs", "resume", "--failed", "--all", answer="n\n")
    assert "Resume 1 run(s)?" in said.said
    assert state("a") is RunState.failed
    assert place.call("runs", "resume", "--failed", "--all").code != 0, "nobody there to ask"
    assert state("a") is RunState.failed
    assert place.call("runs", "resume", "--failed", "--all", "--json").code == 2
    place.ok("runs", "resume", "--failed", "--all", answer="y\n")
    assert state("a") is RunState.ready


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--failed",),
        ("--all",),
        ("a", "--all"),
        ("a", "--failed"),
        ("a", "--limit", "1"),
        ("a", "b", "--as-done"),
    ],
)
def test_what_does_not_say_which_runs_is_refused(place, rows, state, options) -> None:
    rows.end("a", RunState.failed)
    rows.end("b", RunState.failed)
    assert place.call("runs", "resume", *options).code == 2
    assert state("a") is RunState.failed


def test_one_that_cannot_be_resumed_keeps_no_other_from_it(place, rows, state) -> None:
    rows.end("a", RunState.failed)
    doubtful = rows.enqueue("doubtful")
    lease = rows.lease(doubtful)
    with rows.app.store.write() as uow:
        uow.steps.begin_attempt(lease, 1, "pay", effect=EffectClass.naive, args_json="[]", attempt=1)
        uow.endings.end(lease, RunState.parked, reason="may have happened", unknown_step=1)
    rows.end("c", RunState.failed)
    rows.end("good", RunState.succeeded)
    outcome = place.call("runs", "resume", "a", "doubtful", "c", "good")
    assert outcome.code == 1
    assert "refused: has a step that may have happened" in outcome.out
    assert "nothing to resume" in outcome.out
    assert [state(key) for key in ("a", "doubtful", "c")] == [RunState.ready, RunState.parked, RunState.ready]


def test_cancelling_many(place, rows, state) -> None:
    rows.await_event("a", "E", "1", None)
    rows.await_event("b", "E", "2", timedelta(days=1))
    rows.end("done", RunState.succeeded)
    running = rows.enqueue("running")
    rows.lease(running)
    done = place.ok("runs", "cancel", "--waiting", "--all", "--yes", "--reason", "no longer wanted", "--json").json
    assert done["changed"] == 2
    assert state("a") is RunState.cancelled
    with rows.app.store.read() as uow:
        assert uow.runs.by_key("b").reason == "no longer wanted"
    rest = place.ok("runs", "cancel", "--function", "cli_tasks.work", "--all", "--yes", "--json").json
    assert [(one["key"], one["came"]) for one in rest["runs"]] == [("running", "changed")], "what is live, by default"
    again = place.call("runs", "cancel", "a", "running", "done", "--json")
    assert again.code == 1
    assert [one["came"] for one in again.json["runs"]] == ["already", "already", "refused"]


def test_a_name_that_nobody_bears_changes_none(place, rows, state) -> None:
    rows.end("a", RunState.failed)
    assert place.call("runs", "resume", "a", "nobody").code == 3
    assert state("a") is RunState.failed


def test_one_whose_card_has_gone_on_keeps_no_other_from_it(place, rows, state) -> None:
    lost = rows.end("lost its card", RunState.failed)
    rows.change(lost, kind="card", object_id="nobody has it")
    rows.end("b", RunState.failed)
    outcome = place.call("runs", "resume", "--failed", "--all", "--yes")
    assert outcome.code == 1
    assert "cannot be resumed" in outcome.out
    assert (state("lost its card"), state("b")) == (RunState.failed, RunState.ready)
