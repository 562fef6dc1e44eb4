"""Promise 9: leases, take-overs, receipts, poison; only the current holder changes a run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.crash_points import CrashPoint
from hermes.durable import command, function
from hermes.errors import LeaseLost
from hermes.model.run import Lease, RunError, RunKind, RunState
from hermes.model.step import StepState
from hermes.testing.engine import EngineHarness
from store.database import Database
from store.tables.runs import RUNS


def test_another_worker_continues_within_lease_plus_one_tick(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def act(number: int) -> int:
        outside.happened(f"act {number}", harness.clock.now())
        return number

    @function
    async def job() -> int:
        return await act(1) + await act(2)

    began = harness.clock.now()
    run_id = harness.enqueue(job)
    with harness.dying_at(CrashPoint.before_intent, 2):
        harness.worker.run_due()
    other = harness.new_worker()
    harness.clock.advance(harness.settings.lease)
    assert other.run_due() == 0  # not a moment before the lease is over
    harness.clock.advance(harness.settings.tick)
    assert other.run_due() == 1

    run = harness.get(run_id)
    assert (run.result, run.take_overs, run.deliveries) == (3, 1, 0)
    assert outside.count("act 1") == 1
    assert outside.about("act 2")[0] - began <= harness.settings.lease + harness.settings.tick
    assert "take-over" in harness.what_happened(run_id)


def test_D5_W9_recovery_is_repeated_and_survives_its_own_deaths(harness: EngineHarness, database: Database) -> None:
    """A scan that dies half way (the database restarts under it) strands nothing: the next one finds the rest."""

    @function
    async def job() -> str:
        return "done"

    ids = [harness.enqueue(job) for _ in range(5)]
    harness.worker.lease(5)
    harness.clock.advance(harness.settings.lease * 2)

    def rescue_and_die() -> None:
        with database.write() as unit:
            assert len(unit.leases.rescue(poison_after=5)) == 5
            raise ConnectionError("the database restarts before the commit")

    with pytest.raises(ConnectionError):
        rescue_and_die()
    assert {harness.get(run_id).state for run_id in ids} == {RunState.running}
    with database.write() as unit:
        assert len(unit.leases.rescue(poison_after=5, limit=2)) == 2
    assert harness.worker.run_due() == 5
    assert [harness.get(run_id).take_overs for run_id in ids] == [1] * 5


def every_write(lease: Lease) -> dict[str, object]:
    error = RunError("ValueError", "late")
    return {
        "intent": lambda unit: unit.steps.begin_attempt(lease, 2, "x", effect="none", args_json="{}", attempt=1),
        "result": lambda unit: unit.steps.record_result(lease, 1, 1, "1"),
        "failure": lambda unit: unit.steps.record_failure(lease, 1, 1, error, afresh=True),
        "retry": lambda unit: unit.steps.retry_later(lease, 1, 1, error, unit.now, state=StepState.retry),
        "hibernate": lambda unit: unit.endings.hibernate(lease, unit.now, "late"),
        "redeliver": lambda unit: unit.endings.redeliver(lease, error, unit.now),
        "end": lambda unit: unit.endings.end(lease, RunState.succeeded, result_json="1"),
    }


@pytest.mark.parametrize("what", every_write(Lease("", "", 0, None)))  # type: ignore[arg-type]
@pytest.mark.parametrize("stale", ["fence", "owner", "rescued"])
def test_C2_every_write_of_a_former_holder_is_refused_and_changes_nothing(
    harness: EngineHarness, what: str, stale: str
) -> None:
    @command
    def act() -> None: ...

    @function
    async def job() -> None:
        await act()

    run_id = harness.enqueue(job)
    ((leased, _),) = harness.worker.lease(1)
    lease = leased.lease
    with harness.database.write() as unit:
        unit.steps.begin_attempt(lease, 1, act.name, effect=act.effect, args_json="{}", attempt=1)
    if stale == "fence":
        lease = Lease(lease.run_id, lease.owner, lease.fence - 1, lease.until)
    elif stale == "owner":
        lease = Lease(lease.run_id, "somebody else", lease.fence, lease.until)
    else:
        harness.take_over()

    def everything() -> tuple[object, ...]:
        with harness.database.read() as unit:
            return unit.runs.get(run_id), unit.runs.steps(run_id), unit.runs.timeline(run_id)

    before = everything()
    with pytest.raises(LeaseLost), harness.database.write() as unit:
        every_write(lease)[what](unit)  # type: ignore[operator]
    assert everything() == before


def test_C2_a_holder_that_lost_its_lease_stops_and_its_result_is_a_receipt(harness: EngineHarness) -> None:
    """The worker is away for longer than its lease in the middle of a command; another one has taken over."""
    outside = harness.outside

    @command
    def act() -> str:
        if outside.happened("act") == 1:
            harness.clock.advance(harness.settings.lease * 2)
            other = harness.new_worker()
            assert other.rescue() == [run_id]
            ((leased, held),) = other.lease(1)
            taken.append((other, leased, held))
        return f"result {outside.count('act')}"

    @command
    def later() -> None:
        outside.happened("later")

    @function
    async def job() -> str:
        result = await act()
        await later()
        return result

    taken: list[tuple[object, ...]] = []
    run_id = harness.enqueue(job)
    harness.worker.run_due()

    run = harness.get(run_id)
    assert (run.state, run.owner) == (RunState.running, taken[0][0].owner)  # type: ignore[attr-defined]
    assert (outside.count("act"), outside.count("later")) == (1, 0)
    assert "receipt" in harness.what_happened(run_id)

    other, leased, held = taken[0]
    other.drive(leased, held)  # type: ignore[attr-defined]
    assert harness.get(run_id).result == "result 1"  # the receipt spared the second attempt
    assert (outside.count("act"), outside.count("later")) == (1, 1)


def test_C2_no_effect_is_started_once_the_lease_is_gone(harness: EngineHarness) -> None:
    """The machine is suspended between the intent and the effect, and another worker has taken over meanwhile."""
    from hermes import crash_points

    outside = harness.outside

    @command
    def act() -> str:
        outside.happened("act")
        return "done"

    @function
    async def job() -> str:
        return await act()

    run_id = harness.enqueue(job)

    def suspend(point: CrashPoint) -> None:
        if point is CrashPoint.after_intent:
            harness.clock.advance(harness.settings.lease * 2)
            other = harness.new_worker()
            other.rescue()
            other.lease(1)

    crash_points.arm(suspend)
    try:
        harness.worker.run_due()
    finally:
        crash_points.arm(None)
    assert outside.count("act") == 0
    assert harness.get(run_id).state is RunState.running


def test_a_pause_that_nobody_noticed_costs_a_renewal_and_no_take_over(harness: EngineHarness) -> None:
    @command
    def act() -> str:
        harness.clock.advance(harness.settings.lease * 2)
        return "done"

    @function
    async def job() -> str:
        return await act() + await act()

    run = harness.run(job)
    assert (run.result, run.take_overs) == ("donedone", 0)


def test_a_poison_run_is_parked_after_five_crashes_and_the_others_go_on(harness: EngineHarness) -> None:
    outside = harness.outside

    @command
    def segfault() -> None:
        outside.happened("segfault")

    @function
    async def poison_in_a_command() -> None:
        await segfault()

    @function
    async def healthy() -> str:
        return "done"

    with harness.database.write() as unit:
        unit.places.set_places("g", 1)
    poison_id = harness.enqueue(poison_in_a_command, new={"place_group": "g"})
    for _ in range(5):
        with harness.dying_at(CrashPoint.effect_sent):
            harness.worker.run_due()
        harness.take_over()
        harness.clock.advance(timedelta(minutes=5))  # a suspect rests
    healthy_id = harness.enqueue(healthy, new={"place_group": "g"})
    harness.worker.run_due()

    run = harness.get(poison_id)
    assert (run.state, run.crashes) == (RunState.parked, 5)
    assert "poison crash" in (run.reason or "")
    assert outside.count("segfault") == 5
    assert harness.get(healthy_id).result == "done"
    assert harness.finish(poison_id).state is RunState.parked


def test_recording_a_step_starts_the_count_of_crashes_anew(harness: EngineHarness) -> None:
    @command
    def act(number: int) -> int:
        return number

    @function
    async def job() -> int:
        return sum([await act(number) for number in range(8)])

    run_id = harness.enqueue(job)
    for _ in range(7):
        with harness.dying_at(CrashPoint.result_recorded):
            harness.worker.run_due()
        harness.take_over()
    run = harness.finish(run_id)
    assert (run.result, run.take_overs, run.crashes) == (28, 7, 0)


def test_renewing_moves_the_expiry_and_the_places_and_fails_for_a_stale_fence(harness: EngineHarness) -> None:
    @function
    async def job() -> None: ...

    with harness.database.write() as unit:
        unit.places.set_places("g", 2)
    ids = [harness.enqueue(job, new={"place_group": "g"}) for _ in range(2)]
    leases = [leased.lease for leased, _ in harness.worker.lease(2)]
    harness.clock.advance(harness.settings.lease - timedelta(seconds=1))
    stale = Lease(leases[1].run_id, leases[1].owner, leases[1].fence - 1, leases[1].until)
    with harness.database.write(urgent=True) as unit:
        assert unit.leases.renew(harness.worker.owner, [leases[0], stale], harness.settings.lease) == {leases[0]}
    harness.clock.advance(timedelta(seconds=2))
    with harness.database.read() as unit:
        assert unit.places.free_places("g") == 0
    assert (
        harness.get(leases[0].run_id).lease_until == harness.clock.now() - timedelta(seconds=2) + harness.settings.lease
    )
    assert set(ids) == {lease.run_id for lease in leases}


def test_expired_leases_take_no_place(harness: EngineHarness) -> None:
    """Three dead claims of a board with `max_concurrent: 3` do not keep the fourth from running."""

    @function
    async def job() -> str:
        return "done"

    with harness.database.write() as unit:
        unit.places.set_places("board", 3)
    for _ in range(3):
        harness.enqueue(job, new={"place_group": "board"})
    assert len(harness.worker.lease(3)) == 3  # and then the process is gone
    fourth = harness.enqueue(job, new={"place_group": "board", "priority": -1})
    assert harness.new_worker().lease(1) == []
    harness.clock.advance(harness.settings.lease + timedelta(seconds=1))
    other = harness.new_worker()
    ((leased, held),) = other.lease(1)
    assert leased.run.id == fourth
    other.drive(leased, held)
    assert harness.get(fourth).result == "done"


def test_D6_a_lease_taken_from_a_stale_list_changes_no_row(harness: EngineHarness, database: Database) -> None:
    """Two workers that saw the same candidate: the update decides, and one of them gets nothing."""

    @function
    async def job() -> None: ...

    run_id = harness.enqueue(job)
    with database.write() as unit:
        row = unit.connection.execute(RUNS.select().where(RUNS.c.id == run_id)).one()
        first = unit.leases._lease_one(row, "first", timedelta(seconds=60))
        second = unit.leases._lease_one(row, "second", timedelta(seconds=60))
    assert first is not None
    assert second is None
    assert harness.get(run_id).owner == "first"


def test_kinds_of_runs_are_leased_alike(harness: EngineHarness) -> None:
    @function
    async def job() -> str:
        return "done"

    ids = [harness.enqueue(job, new={"kind": kind}) for kind in RunKind]
    harness.worker.run_due()
    assert {harness.get(run_id).state for run_id in ids} == {RunState.succeeded}
