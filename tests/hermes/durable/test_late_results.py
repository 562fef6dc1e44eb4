"""A result is recorded with what its run writes next: what a death in between, a lost lease, a slow function mean."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import command, delay, function
from hermes.durable.late import LateWriter
from hermes.errors import StoreUnavailable
from hermes.model.run import RunState
from hermes.model.step import StepState
from hermes.testing.engine import EngineHarness
from store.steps import StepStatements


@pytest.fixture
def late(harness: EngineHarness) -> LateWriter:
    """As a started worker has, but ticked by the test."""
    late = LateWriter()
    harness.worker._late = late
    return late


def test_the_result_commits_with_the_next_intent_and_the_last_one_with_the_ending(
    harness: EngineHarness, late: LateWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    @command
    def act(number: int) -> int:
        return number

    @function
    async def job() -> int:
        return await act(1) + await act(2) + await act(3)

    run_id = harness.enqueue(job)
    commits = []
    commit = harness.database.commit
    monkeypatch.setattr(harness.database, "commit", lambda change: (commits.append(1), commit(change))[1])
    harness.worker.run_due()
    assert harness.get(run_id).result == 6
    assert len(commits) - 1 == 5, "the lease, three intents, the ending; and a look that finds nothing more"
    assert harness.what_happened(run_id) == [
        "enqueued", "leased", "attempt", "result", "attempt", "result", "attempt", "result", "succeeded"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("point", "hit", "firsts", "seconds"),
    [
        (CrashPoint.effect_sent, 1, 2, 1),
        (CrashPoint.before_intent, 2, 2, 1),  # the result waited for the intent: the same key was sent again
        (CrashPoint.result_recorded, 1, 1, 1),  # with the intent of the second, which was not sent
        (CrashPoint.after_intent, 2, 1, 1),
        (CrashPoint.effect_sent, 2, 1, 2),
        (CrashPoint.run_ended, 1, 1, 1),
    ],
)
def test_a_death_between_result_and_next_intent_is_one_before_the_result_was_recorded(
    harness: EngineHarness, late: LateWriter, point: CrashPoint, hit: int, firsts: int, seconds: int
) -> None:
    outside = harness.outside

    @command
    def act(number: int) -> int:
        outside.happened(f"act {number}")
        return number

    @function
    async def job() -> int:
        return await act(1) + await act(2)

    run_id = harness.enqueue(job)
    with harness.dying_at(point, hit):
        harness.worker.run_due()
    harness.take_over()
    harness.new_worker().run_due()
    assert harness.get(run_id).result == 3
    assert (outside.count("act 1"), outside.count("act 2")) == (firsts, seconds)


def test_no_effect_begins_before_the_result_it_may_depend_on_is_on_the_disk(
    harness: EngineHarness, late: LateWriter
) -> None:
    stood = []

    @command
    def first() -> int:
        return 1

    @command
    def second() -> int:
        with harness.database.read() as unit:
            stood.extend((step.seq, step.state) for step in unit.runs.steps(run_id))
        return 2

    @function
    async def job() -> int:
        return await first() + await second()

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert stood == [(1, StepState.done), (2, StepState.started)]


def test_a_function_that_computes_for_long_does_not_keep_its_result_from_the_disk(
    harness: EngineHarness, late: LateWriter
) -> None:
    @command
    def act() -> int:
        return 1

    @function
    async def job() -> int:
        found = await act()
        late.tick()  # as its thread would, while this goes on
        with harness.database.read() as unit:
            assert unit.runs.steps(run_id)[0].state is StepState.done
        return found

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).result == 1
    assert harness.what_happened(run_id).count("result") == 1


def test_a_result_that_waited_is_a_receipt_once_the_lease_is_lost(harness: EngineHarness, late: LateWriter) -> None:
    outside = harness.outside

    @command
    def act() -> str:
        outside.happened("act")
        return "mine"

    @function
    async def job() -> str:
        found = await act()
        if outside.happened("computed") == 1:
            harness.take_over()
        return found

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.finish(run_id).result == "mine"
    assert outside.count("act") == 1, "the receipt spared an attempt"
    assert "receipt" in harness.what_happened(run_id)


def test_the_late_writer_notices_a_lost_lease_and_keeps_the_receipt(harness: EngineHarness, late: LateWriter) -> None:
    outside = harness.outside

    @command
    def act() -> str:
        outside.happened("act")
        return "mine"

    @function
    async def job() -> str:
        found = await act()
        if outside.happened("computed") == 1:
            harness.take_over()
            late.tick()
            with harness.database.read() as unit:
                assert unit.steps.receipt(run_id, 1) == '"mine"'
        return found

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.finish(run_id).result == "mine"
    assert outside.count("act") == 1


def test_a_run_asked_to_stop_keeps_the_result_that_waited(harness: EngineHarness, late: LateWriter) -> None:
    @command
    def act(number: int) -> int:
        if number == 1:
            with harness.database.write() as unit:
                unit.runs.cancel(run_id, "enough")
        return number

    @function
    async def job() -> int:
        return await act(1) + await act(2)

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.cancelled
    with harness.database.read() as unit:
        assert [(step.seq, step.state, step.result_json) for step in unit.runs.steps(run_id)] == [
            (1, StepState.done, "1")
        ]


def test_what_the_engine_cannot_go_on_with_keeps_the_result_that_waited(
    harness: EngineHarness, late: LateWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    @command
    def act(number: int) -> int:
        return number

    @function
    async def job() -> int:
        return await act(1) + await act(2)

    run_id = harness.enqueue(job)
    begin = StepStatements.begin_attempt

    def refuse(self: StepStatements, lease: object, seq: int, *args: object, **how: object) -> object:
        if seq == 2:
            raise LookupError("a bug of ours")
        return begin(self, lease, seq, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(StepStatements, "begin_attempt", refuse)
    harness.worker.run_due()
    with harness.database.read() as unit:
        assert [step.state for step in unit.runs.steps(run_id)] == [StepState.done]


def test_a_delay_and_a_redelivery_take_the_result_along(harness: EngineHarness, late: LateWriter) -> None:
    outside = harness.outside

    @command
    def act(number: int) -> int:
        outside.happened(f"act {number}")
        return number

    @function
    async def job() -> int:
        total = await act(1)
        await delay(timedelta(minutes=1))
        total += await act(2)
        if outside.happened("raised") == 1:
            raise ValueError("once")
        return total

    assert harness.run(job).result == 3
    assert (outside.count("act 1"), outside.count("act 2")) == (1, 1)


def test_an_outage_keeps_the_late_writer_trying(
    harness: EngineHarness, late: LateWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [StoreUnavailable("away")]
    commit = harness.database.commit

    def commit_or_not(change: object) -> object:
        if threading.current_thread().name == "late" and away:
            raise away.pop()
        return commit(change)  # type: ignore[arg-type]

    def tick_elsewhere() -> None:
        thread = threading.Thread(target=late.tick, name="late")
        thread.start()
        thread.join(20)

    monkeypatch.setattr(harness.database, "commit", commit_or_not)
    stood = []

    @command
    def act() -> int:
        return 1

    @function
    async def job() -> int:
        found = await act()
        for _ in range(2):
            tick_elsewhere()
            with harness.database.read() as unit:
                stood.append(unit.runs.steps(run_id)[0].state)
        return found

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).result == 1
    assert stood == [StepState.started, StepState.done]
