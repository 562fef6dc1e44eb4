from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.app import App
from hermes.model.run import RunState
from hermes.process import Process, Role


@pytest.fixture
def old(rows) -> str:
    run_id = rows.end("old", RunState.succeeded)
    rows.change(run_id, finished_at=rows.app.clock.now() - timedelta(days=40))
    return run_id


def test_nothing_is_old_enough(place, old) -> None:
    assert "Nothing is old enough. Kept are runs 90d" in place.ok("runs", "prune").out


def test_a_dry_run_counts_and_removes_nothing(place, old) -> None:
    place.write_hermes(retention={"runs": "30d"})
    counted = place.ok("runs", "prune", "--dry-run", "--json").json
    assert counted["dry_run"] is True
    assert (counted["rows"]["runs"], counted["rows"]["timeline"]) == (1, 3)
    assert "Would be removed" in place.ok("runs", "prune", "--dry-run").out
    assert place.ok("runs", "show", old, "--json").json["timeline"]
    done = place.ok("runs", "prune", "--json").json
    assert (done["rows"], done["text"]) == (counted["rows"], counted["text"])
    assert place.ok("runs", "show", old, "--json").json["timeline"] == []
    assert "are no longer kept" in place.ok("runs", "show", "old").out


def test_more_than_is_configured_is_removed_only_on_a_persons_word(place, rows, old) -> None:
    rows.end("failed", RunState.failed)
    rows.change(rows.end("failed long ago", RunState.failed), finished_at=rows.app.clock.now() - timedelta(days=40))
    assert "Nothing was changed" in place.ok("runs", "prune", "--older-than", "30d", answer="n\n").out
    assert place.call("runs", "prune", "--older-than", "30d", "--json").code == 2
    assert place.call("runs", "prune", "--older-than", "thirty").code == 2
    assert place.ok("runs", "show", "old", "--json").json["timeline"]
    done = place.ok("runs", "prune", "--older-than", "30d", "--yes", "--json").json
    assert done["rows"]["runs"] == 1, "never what may be resumed"


def test_a_forgotten_failure_is_not_resumed(place, rows) -> None:
    failed = rows.end("failed", RunState.failed)
    rows.change(failed, finished_at=rows.app.clock.now() - timedelta(days=200))
    place.ok("runs", "prune")
    outcome = place.call("runs", "resume", failed)
    assert outcome.code == 1
    assert "no longer kept" in outcome.err
    assert "no longer kept" in place.call("runs", "resume", "--failed", "--all", "--dry-run").out


def test_while_another_process_is_at_it(place, rows, old) -> None:
    with rows.app.store.write() as uow:
        uow.retention.take_turn("another", uow.now + timedelta(minutes=10))
    outcome = place.call("runs", "prune")
    assert outcome.code == 1
    assert "Another process" in outcome.err


@pytest.mark.parametrize(("at", "times"), [("03:30", 1), ("never", 0)])
def test_a_scheduler_that_is_up_does_it_by_itself(place, old, at, times) -> None:
    place.write_hermes(retention={"at": at, "runs": "30d"})
    app = App.load(place.config)
    try:
        app.configure_logs(level="error")
        with Process(app, frozenset({Role.board, Role.scheduler})) as process:
            assert ("retention" in process.ticker._ticks) is bool(times)
            if times:
                process.ticker.call("retention")
        with app.store.read() as uow:
            assert len(uow.polls.occurrences("hermes:retention")) == times
            run = uow.runs.get(old)
        assert run is not None
        assert run.whole is not bool(times)
    finally:
        app.close()
