from __future__ import annotations

import pytest

from hermes.model.run import EffectClass, RunError, RunState


@pytest.fixture
def failed(rows) -> str:
    """Step 1 is done, step 2 has failed."""
    run_id = rows.enqueue("failed")
    lease = rows.lease(run_id)
    error = RunError("builtins:OSError", "no route", None)
    with rows.app.store.write() as uow:
        uow.steps.begin_attempt(lease, 1, "pay", effect=EffectClass.keyed, args_json="[]", attempt=1)
        uow.steps.record_result(lease, 1, 1, '"paid"')
        uow.steps.begin_attempt(lease, 2, "tell", effect=EffectClass.keyed, args_json="[]", attempt=1)
        uow.steps.record_failure(lease, 2, 1, error, afresh=False)
        uow.endings.end(lease, RunState.failed, error=error)
    return run_id


def test_a_dry_run_changes_nothing(place, rows, failed) -> None:
    assert "would be tried again. Nothing was changed" in place.ok("runs", "retry-step", "failed", "2", "--dry-run").out
    with rows.app.store.read() as uow:
        assert uow.runs.get(failed).state is RunState.failed
        assert [entry.what for entry in uow.runs.timeline(failed)][-1] == "failed"


def test_the_step_is_granted_and_the_run_goes_on(place, rows, failed) -> None:
    done = place.ok("runs", "retry-step", "failed", "2", "--json").json
    assert done == {"run": failed, "step": 2, "asked": "retry-step", "changed": True, "dry_run": False}
    with rows.app.store.read() as uow:
        assert uow.runs.get(failed).state is RunState.ready
        assert [step.state.value for step in uow.runs.steps(failed)] == ["done", "retry"]
    assert "retry granted" in place.ok("runs", "show", "failed").out
    again = place.call("runs", "retry-step", "failed", "2")
    assert again.code == 1
    assert "has not stopped" in again.err


@pytest.mark.parametrize(
    ("step", "code", "why"), [("1", 1, "stands for ever"), ("7", 3, "has no step 7"), ("0", 2, ""), ("x", 2, "")]
)
def test_what_cannot_be_tried_again_is_refused_with_the_reason(place, failed, step, code, why) -> None:
    outcome = place.call("runs", "retry-step", "failed", step)
    assert outcome.code == code
    assert why in outcome.err


def test_a_cards_run_waits_until_its_card_is_claimed_again(place) -> None:
    place.work("doubtful")
    run = place.runs()["doubtful"]
    assert run.state is RunState.parked
    said = place.ok("runs", "retry-step", "doubtful", "2").out
    assert "once its card is claimed again" in said
    assert place.ok("board", "show", "--json").json["cards"][0]["state"] == "backoff"


def test_what_is_not_granted_has_changed_nothing(place, rows) -> None:
    """Its own step could be tried again; but another may have happened, and a person decides that first."""
    run_id = rows.enqueue("doubtful")
    lease = rows.lease(run_id)
    with rows.app.store.write() as uow:
        for seq in (1, 2):
            uow.steps.begin_attempt(lease, seq, "pay", effect=EffectClass.naive, args_json="[]", attempt=1)
        uow.endings.end(lease, RunState.parked, reason="may have happened", unknown_step=1)
    outcome = place.call("runs", "retry-step", "doubtful", "1")
    assert outcome.code == 1
    assert "another step may have happened" in outcome.err
    with rows.app.store.read() as uow:
        assert [step.state.value for step in uow.runs.steps(run_id)] == ["unknown", "started"]
        assert "retry granted" not in [entry.what for entry in uow.runs.timeline(run_id)]
