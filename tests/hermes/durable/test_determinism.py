"""Promise 8, as far as it is built: numbered steps, foreign awaits, unwinding, and code that changed under a run."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import command, delay, function, now
from hermes.model.run import NewRun, RunKind, RunState
from hermes.testing.engine import EngineHarness


def test_steps_are_numbered_when_called_not_when_awaited(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act(name: str) -> str:
        outside.happened(name)
        return name

    @function
    async def job() -> str:
        first, second = act("first"), act("second")
        return await second + await first + await second

    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.result_recorded):
        harness.worker.run_due()
    harness.take_over()

    assert harness.finish(run_id).result == "secondfirstsecond"
    assert (outside.count("first"), outside.count("second")) == (1, 1)
    with harness.database.read() as unit:
        assert [(step.seq, step.args_json) for step in unit.runs.steps(run_id)] == [
            (1, '{"name":"first"}'),
            (2, '{"name":"second"}'),
        ]


@pytest.mark.parametrize("foreign", ["asyncio", "bare", "future", "handle of another run"])
def test_awaiting_anything_else_is_a_clear_error(harness: EngineHarness, foreign: str) -> None:
    kept = []
    loop = asyncio.new_event_loop()
    loop.close()

    @command
    def act() -> int:
        return 1

    class Bare:
        def __await__(self):  # type: ignore[no-untyped-def]
            yield None

    @function
    async def job() -> None:
        if foreign == "asyncio":
            await asyncio.sleep(1)
        elif foreign == "bare":
            await Bare()
        elif foreign == "future":
            await loop.create_future()
        else:
            kept.append(act())
            await kept[0]
            await kept[-2]

    limit = {"max_deliveries": 2 if foreign == "handle of another run" else 1}
    run = harness.finish(harness.enqueue(job, new=limit))

    assert run.state is RunState.failed
    assert run.error is not None
    assert run.error.kind == (
        "IndexError" if foreign == "handle of another run" and len(kept) < 2 else "hermes.durable.failure:ForeignAwait"
    )
    assert "job" in (run.error.trace or "")


def test_a_command_that_is_called_and_not_awaited_is_an_error(harness: EngineHarness) -> None:
    @command
    def act() -> None: ...

    @function
    async def job() -> None:
        act()

    run = harness.finish(harness.enqueue(job, new={"max_deliveries": 1}))
    assert run.error is not None
    assert run.error.short_kind == "NeverAwaited"
    assert "act> was called but never awaited" in run.error.message


def test_steps_asked_for_while_a_suspended_function_unwinds_are_refused(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def clean_up() -> None:
        outside.happened("clean up")

    @function
    async def job() -> str:
        try:
            await delay(timedelta(hours=1))
        except BaseException:
            outside.happened("saw the suspension")
            raise
        finally:
            try:
                step = clean_up()
            except BaseException as exc:
                outside.happened("refused", str(exc))
                raise
            await step
        return "done"

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting
    assert outside.count("clean up") == 0
    assert outside.about("refused") == ["the run is suspended: no step may be asked for while it unwinds"]
    with harness.database.read() as unit:
        assert [step.name for step in unit.runs.steps(run_id)] == ["delay"]

    assert harness.finish(run_id).result == "done"
    assert outside.count("clean up") == 1


def test_a_function_that_clings_to_life_is_dropped_all_the_same(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act() -> None:
        outside.happened("act")

    @function
    async def job() -> str:
        while True:
            try:
                await delay(timedelta(hours=1))
                return "done"
            except BaseException:  # noqa: BLE001, S112
                continue

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    assert harness.get(run_id).state is RunState.waiting


VERSIONS = {
    "renamed": "step 2: recorded {old}, now {new}",
    "inserted": "step 1: recorded {first}, now {new}",
    "removed": "step 2: recorded {old}, now the function is over before it",
    "another kind": "step 2: recorded {old}, now delay",
    "value": "step 2: recorded {old}, now value now",
}


@pytest.mark.parametrize("change", VERSIONS)
def test_code_that_changed_under_a_run_parks_it_with_the_difference_and_runs_nothing(
    harness: EngineHarness, change: str
) -> None:
    outside, deployed = harness.outside, [False]

    @command
    def first() -> None:
        outside.happened("first")

    @command
    def old() -> None:
        outside.happened("old")

    @command
    def new() -> None:
        outside.happened("new")

    @function
    async def job() -> None:
        if not deployed[0]:
            await first()
            await old()
            await delay(timedelta(days=1))
            return
        try:
            if change == "inserted":
                await new()
            await first()
            if change == "renamed":
                await new()
            if change == "another kind":
                await delay(timedelta(days=1))
            if change == "value":
                now()
            if change != "removed":
                await delay(timedelta(days=1))
        except BaseException:  # noqa: BLE001 - even code that swallows everything is stopped
            await new()

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    deployed[0] = True
    run = harness.finish(run_id)

    names = {"old": old.name, "new": new.name, "first": first.name}
    assert run.state is RunState.parked
    assert VERSIONS[change].format(**names) in (run.reason or "")
    assert (outside.count("first"), outside.count("old"), outside.count("new")) == (1, 1, 0)


def test_a_parked_run_goes_on_once_the_old_code_is_back(harness: EngineHarness) -> None:
    outside, deployed = harness.outside, [False]

    @command
    def old() -> str:
        return f"old {outside.happened('old')}"

    @command
    def new() -> str:
        return "new"

    @function
    async def job() -> str:
        result = await (new() if deployed[0] else old())
        await delay(timedelta(days=1))
        return result

    run_id = harness.enqueue(job)
    harness.worker.run_due()
    deployed[0] = True
    assert harness.finish(run_id).state is RunState.parked
    deployed[0] = False
    with harness.database.write() as unit:
        unit.runs.resume(run_id)
    assert harness.finish(run_id).result == "old 1"


def test_a_worker_never_leases_a_function_it_does_not_know(harness: EngineHarness) -> None:
    with harness.database.write() as unit:
        run_id, _ = unit.runs.enqueue(NewRun("k", RunKind.function, "another.version.job", {}))
    assert harness.worker.run_due() == 0
    assert harness.get(run_id).state is RunState.ready
    with harness.database.read() as unit:
        assert [run.id for run in unit.runs.stranded(["something.else"])] == [run_id]
        assert list(unit.runs.stranded(["another.version.job"])) == []


def test_arguments_that_do_not_fit_the_code_any_more_park_the_run(harness: EngineHarness) -> None:
    @function
    async def job(number: int) -> int:
        return number

    run = harness.run(job, count=1)
    assert run.state is RunState.parked
    assert "arguments of" in (run.reason or "")


def test_an_endless_history_is_stopped(harness: EngineHarness) -> None:
    from dataclasses import replace

    harness.settings = replace(harness.settings, max_steps=50)
    harness.worker = harness.new_worker()

    @function
    async def job() -> None:
        while True:
            now()

    run = harness.run(job)
    assert run.state is RunState.parked
    assert "more than 50 steps" in (run.reason or "")
