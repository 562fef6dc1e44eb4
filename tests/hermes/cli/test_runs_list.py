"""`runs list`: what is waiting for what, what is stuck and why, and filters that all hold at once."""

from __future__ import annotations

from datetime import timedelta

from hermes.model.event import NewEvent
from hermes.model.run import EffectClass, NewRun, RunError, RunKind, RunState
from hermes.model.step import StepKind
from hermes.ports.pending import NewStep, Pending

MINUTE = timedelta(minutes=1)


def test_waiting_says_what_for_since_when_and_until_when(place, rows) -> None:
    rows.await_event("order-1", "PAID", "42", timedelta(hours=3))
    rows.await_event("order-2", "PAID", "43", None)
    rows.end("done", RunState.succeeded)
    said = place.ok("runs", "list", "--waiting").out
    assert "event PAID for 42" in said
    assert "event PAID for 43" in said
    assert "in 3 h" in said
    assert "for ever" in said
    assert "done" not in said
    found = {run["key"]: run for run in place.ok("runs", "list", "--waiting", "--json").json["runs"]}
    (wait,) = found["order-1"]["waits"]
    assert (wait["what"], wait["name"], wait["about"]) == ("event", "PAID", "42")
    assert wait["until"] is not None
    with rows.app.store.write() as uow:
        uow.events.fire(NewEvent("PAID", "42"), max_kept=10)
    assert "PAID for 42" not in place.ok("runs", "list", "--waiting").out, "it waits for nothing any more"


def test_filters_hold_all_at_once(place, rows, keys) -> None:
    rows.end("a", RunState.failed, message="the bank is closed")
    rows.end("b", RunState.failed, message="no such customer")
    rows.end("c", RunState.failed, "cli_tasks.linger", message="The Bank refuses")
    old = rows.end("d", RunState.failed, message="the bank is closed")
    rows.end("e", RunState.succeeded)
    rows.change(old, changed_at=rows.app.clock.now() - timedelta(days=3))
    assert keys("--failed") == {"a", "b", "c", "d"}
    assert keys("--failed", "--error", "bank") == {"a", "c", "d"}
    assert keys("--failed", "--error", "100%") == set()
    assert keys("--failed", "--function", "cli_tasks.linger") == {"c"}
    assert keys("--older-than", "1d") == {"d"}
    assert keys("--failed", "--since", "1d", "--error", "closed") == {"a"}
    assert keys("--failed", "--state", "succeeded", "--since", "12h") == {"a", "b", "c", "e"}
    assert keys("--since", "2020-01-01") == {"a", "b", "c", "d", "e"}
    assert place.call("runs", "list", "--since", "2020-13-01").code == 2
    assert place.call("runs", "list", "--older-than", "3").code == 2


def test_stuck_is_what_somebody_should_have_gone_on_with(place, rows, keys) -> None:
    now, lease = rows.app.clock.now(), timedelta(seconds=5)
    lost = rows.enqueue("lost")
    rows.lease(lost)
    rows.change(lost, lease_until=now - 2 * lease)
    working = rows.enqueue("working")
    rows.lease(working)
    just_over = rows.enqueue("just over")
    rows.lease(just_over)
    rows.change(just_over, lease_until=now)
    late = rows.enqueue("late")
    rows.change(late, due_at=now - 4 * lease)
    rows.enqueue("due")
    overslept = rows.await_event("overslept", "E", "1", MINUTE)
    rows.change(overslept, due_at=now - 4 * lease)
    rows.await_event("for ever", "E", "2", None)
    nothing = rows.await_event("nothing", "E", "3", None)
    with rows.app.store.write() as uow:
        uow.waits.clear(nothing)
    held = rows.enqueue("held", held=True)
    rows.change(held, changed_at=now - 4 * lease)
    rows.enqueue("held for a moment", held=True)
    assert keys("--stuck") == {"lost", "late", "overslept", "nothing", "held"}
    said = place.ok("runs", "list", "--stuck").out
    for word in ("nobody took it over", "no worker has taken it", "nothing is left", "no card will release it"):
        assert word in said
    assert keys("--stuck", "--waiting") == {"overslept", "nothing"}


def test_a_run_that_awaits_a_living_child_is_not_stuck(rows, keys) -> None:
    parent = rows.enqueue("parent")
    lease = rows.lease(parent)
    child = NewStep(1, StepKind.child, "c", child=NewRun("child", RunKind.function, "cli_tasks.linger", {}))
    with rows.app.store.write() as uow:
        uow.endings.hibernate(lease, None, "waits for it", awaits=[1], pending=Pending(new=(child,)))
    assert keys("--stuck") == set()
    with rows.app.store.read() as uow:
        child_id = uow.runs.steps(parent)[0].awaits_run_id
    rows.change(child_id, state="succeeded")  # and nobody was told
    assert keys("--stuck") == {"parent"}


def test_unknown_functions_are_due_runs_that_this_code_cannot_do(place, rows, keys) -> None:
    rows.enqueue("known")
    rows.enqueue("unknown", "gone.function")
    rows.enqueue("later", "gone.function", due_at=rows.app.clock.now() + MINUTE)
    assert keys("--unknown-function") == {"unknown"}
    assert keys("--unknown-function", "--function", "cli_tasks.work") == set()


def test_an_empty_list_says_what_there_is_instead(place, rows) -> None:
    assert "No runs yet" in place.ok("runs", "list", "--stuck").out
    rows.end("a", RunState.succeeded)
    assert "No run is stuck. There are 1 succeeded." in place.ok("runs", "list", "--stuck").out
    assert "There are 1 succeeded" in place.ok("runs", "list", "--failed").out
    assert "has the function of every run" in place.ok("runs", "list", "--unknown-function").out


def test_the_timeline_says_an_attempt_and_what_came_of_it_in_one_line(place, rows) -> None:
    later = rows.enqueue("later", due_at=rows.app.clock.now() + timedelta(hours=3))
    assert "scheduled" in (said := place.ok("runs", "show", later).out)
    assert "due 20" in said
    assert "(+3 h)" in said
    run_id = rows.enqueue("a")
    lease = rows.lease(run_id)
    error = RunError("builtins:OSError", "no route", 'File "x.py", line 3')
    with rows.app.store.write() as uow:
        uow.steps.begin_attempt(lease, 1, "pay", effect=EffectClass.keyed, args_json="[]", attempt=1)
    with rows.app.store.write() as uow:
        uow.steps.record_failure(lease, 1, 1, error, afresh=True)
    with rows.app.store.write() as uow:
        uow.steps.begin_attempt(lease, 2, "tell", effect=EffectClass.keyed, args_json="[]", attempt=1)
        uow.steps.add_receipt(run_id, 1, 1, "pay", '"late"')
    said = place.ok("runs", "show", "a").out
    (attempt,) = [line for line in said.splitlines() if "attempt 1" in line and "1 pay" in line and "failed" in line]
    assert "OSError: no route; the last attempt" in attempt
    assert "no outcome is recorded" in next(line for line in said.splitlines() if "2 tell" in line)
    assert "Late results, kept" in said
    assert "x.py" not in said
    assert "x.py" in place.ok("runs", "show", "a", "--trace").out
    whole = place.ok("runs", "show", "a", "--json").json
    assert [entry["what"] for entry in whole["timeline"]] == [
        "enqueued", "leased", "attempt", "failure", "attempt", "receipt",
    ]  # fmt: skip
    assert whole["receipts"][0]["result_json"] == '"late"'
    assert "x.py" in whole["steps"][0]["error"]["trace"]
