"""Removing what is old: what stays, what goes, in which steps, and what a death in the middle leaves."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select, update

from hermes.model.claim import ClaimState
from hermes.model.run import EffectClass, Lease, NewRun, RunError, RunKind, RunState
from hermes.model.step import StepKind, StepState
from hermes.ports.pending import NewStep, Pending
from hermes.ports.runs import Resumed
from hermes.retention import Ages, Pruning
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from store.database import Database
from store.tables.claims import BoardLogRow, CardRow
from store.tables.polls import OCCURRENCES
from store.tables.runs import PLACES, RECEIPTS, RUNS, STEPS, TIMELINE

pytestmark = pytest.mark.sqlite_is_enough

DAY = timedelta(days=1)
AGES = Ages(timeline=90 * DAY, runs=90 * DAY, failed=180 * DAY, keys=None, occurrences=90 * DAY)
BOARD_LOG = BoardLogRow.__table__  # type: ignore[attr-defined]
CARDS = CardRow.__table__  # type: ignore[attr-defined]


class World:
    def __init__(self, database: Database) -> None:
        self.database = database
        assert isinstance(database.clock, FakeClock)
        self.clock = database.clock

    def start(self, key: str, **fields: Any) -> Lease:
        with self.database.write() as unit:
            new = NewRun(key, RunKind.function, "f", {"about": "x" * 100}, priority=-1.0, **fields)
            unit.runs.enqueue(new)
        with self.database.write() as unit:
            (leased,) = unit.leases.lease("w", timedelta(days=9999), ["f"], 1)
            assert leased.run.key == key
            return leased.lease

    def step(self, lease: Lease, seq: int = 1, *, result: str = '"done"') -> None:
        with self.database.write() as unit:
            unit.steps.begin_attempt(lease, seq, "pay", effect=EffectClass.keyed, args_json='["a"]', attempt=1)
        with self.database.write() as unit:
            unit.steps.record_result(lease, seq, 1, result)

    def end(self, lease: Lease, state: RunState = RunState.succeeded, result: str = '"ok"') -> None:
        error = RunError("builtins:RuntimeError", "it broke", "trace " * 50) if state is RunState.failed else None
        with self.database.write() as unit:
            result_json = result if state is RunState.succeeded else None
            unit.endings.end(lease, state, result_json=result_json, error=error)
        self.clock.advance(timedelta(seconds=1))

    def run(self, key: str, state: RunState = RunState.succeeded, **fields: Any) -> str:
        lease = self.start(key, **fields)
        self.step(lease)
        with self.database.write() as unit:
            unit.steps.add_receipt(lease.run_id, 1, 1, "pay", '"late"')
        self.end(lease, state)
        return lease.run_id

    def child(self, parent: Lease, seq: int, key: str) -> None:
        new = NewStep(seq, StepKind.child, "f", child=NewRun(key, RunKind.function, "f", {}, priority=-1.0))
        with self.database.write() as unit:
            unit.endings.hibernate(parent, None, "waits", awaits=[seq], pending=Pending(new=(new,)))

    def lease_due(self) -> Lease:
        with self.database.write() as unit:
            (leased,) = unit.leases.lease("w", timedelta(days=9999), ["f"], 1)
            return leased.lease

    def prune(self, ages: Ages = AGES, **how: Any) -> Counter[str]:
        pruning = Pruning(self.database, ages, "me", **how)
        assert pruning.work()
        return +pruning.removed.rows

    def rows(self, table: Any, run_id: str | None = None) -> int:
        query = select(func.count()).select_from(table)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        with self.database.read() as unit:
            return int(unit.connection.execute(query).scalar_one())

    def details(self, key: str) -> str | None:
        with self.database.read() as unit:
            return unit.connection.execute(select(RUNS.c.details).where(RUNS.c.key == key)).scalar_one_or_none()

    def add(self, table: Any, **values: Any) -> None:
        with self.database.write() as unit:
            unit.connection.execute(insert(table).values(**values))

    def card(self, card_id: str, run_id: str, state: ClaimState, settled_at: datetime | None = None) -> None:
        now = self.clock.now()
        self.add(
            CARDS, board="b", card_id=card_id, poll_id="p", state=state.value, run_id=run_id, created_at=now,
            updated_at=now, settled_at=settled_at,
        )  # fmt: skip


@pytest.fixture
def world(databases: Databases) -> World:
    return World(databases.open(FakeClock()))


def test_key_and_ending_stay_and_suppress_a_duplicate_start(world: World) -> None:
    run_id = world.run("order-1")
    world.clock.advance(91 * DAY)
    removed = world.prune()
    assert removed == {"runs": 1, "steps": 1, "receipts": 1, "timeline": 6}
    for table in (STEPS, RECEIPTS, TIMELINE):
        assert world.rows(table, run_id) == 0
    with world.database.write() as unit:
        assert unit.runs.enqueue(NewRun("order-1", RunKind.function, "f", {})) == (run_id, False)
        left = unit.runs.get(run_id)
    assert world.rows(TIMELINE) == 0, "nor does one who asks again and again fill the table"
    assert left is not None
    assert left.duplicates == 1
    assert (left.state, left.result, left.args, left.whole) == (RunState.succeeded, "ok", {}, False)


def test_what_is_young_or_not_over_is_left_alone(world: World) -> None:
    sleeper = world.start("sleeps for ever")
    world.step(sleeper)
    with world.database.write() as unit:
        unit.endings.hibernate(sleeper, None, "waits")
    world.run("done")
    world.run("refused", RunState.refused)
    for state in (RunState.failed, RunState.parked, RunState.cancelled):
        world.run(state.value, state)
    world.clock.advance(89 * DAY)
    assert world.prune() == {}
    world.clock.advance(2 * DAY)
    assert world.prune()["runs"] == 2
    assert [world.details(key) for key in ("done", "refused")] == ["gone", "gone"]
    assert [world.details(key) for key in ("failed", "parked", "cancelled", "sleeps for ever")] == ["whole"] * 4
    world.clock.advance(90 * DAY)
    assert world.prune()["runs"] == 3
    assert world.details("sleeps for ever") == "whole"
    assert world.rows(STEPS) == 1


def test_a_run_whose_steps_are_gone_is_not_resumed(world: World) -> None:
    run_id = world.run("failed", RunState.failed)
    world.clock.advance(181 * DAY)
    world.prune()
    with world.database.write() as unit:
        assert unit.runs.resume(run_id) is Resumed.forgotten
        run = unit.runs.get(run_id)
    assert run is not None
    assert (run.state, run.error and run.error.message, run.error and run.error.trace) == (
        RunState.failed,
        "it broke",
        None,
    )


def test_a_run_is_kept_while_one_who_awaits_it_is(world: World) -> None:
    """A resumed parent may resume its child, and needs that one's steps."""
    parent = world.start("parent")
    world.child(parent, 1, "child")
    child = world.lease_due()
    world.step(child)
    world.end(child)
    again = world.lease_due()
    assert again.run_id == parent.run_id
    world.end(again, RunState.failed)
    world.clock.advance(100 * DAY)
    assert "runs" not in world.prune()
    world.clock.advance(100 * DAY)
    looked = world.prune(look=True)
    assert world.prune()["runs"] == 2, "both in one going over"
    assert looked["runs"] == 2


def test_a_stopped_run_is_kept_while_one_it_awaits_lives(world: World) -> None:
    parent = world.start("parent")
    world.child(parent, 1, "child")
    child = world.lease_due()
    world.step(child)
    with world.database.write() as unit:
        unit.endings.end(child, RunState.parked, reason="look")
    again = world.lease_due()
    with world.database.write() as unit:
        unit.endings.end(again, RunState.parked, reason="its child is parked")
    with world.database.write() as unit:  # the parent is old, and its child has parked again just now
        old = world.clock.now() - 200 * DAY
        unit.connection.execute(update(RUNS).where(RUNS.c.key == "parent").values(finished_at=old))
    assert world.prune() == {}
    world.clock.advance(181 * DAY)
    assert [world.prune()["runs"], world.prune()["runs"]] == [1, 1], "the one that awaits goes first"


def test_a_parent_that_joins_a_forgotten_child_does_not_wait_for_ever(world: World) -> None:
    failed = world.run("child", RunState.failed)
    world.clock.advance(181 * DAY)
    world.prune()
    parent = world.start("parent")
    world.child(parent, 1, "child")
    again = world.lease_due()
    with world.database.write() as unit:
        (step,) = unit.runs.steps(parent.run_id)
        assert (step.state, step.awaits_run_id) == (StepState.failed, failed)
        unit.endings.redeliver(again, RunError("k", "uncaught"), unit.now, failed_step=1)
        (step,) = unit.runs.steps(parent.run_id)
    assert step.state is StepState.failed, "nobody will go on with it, so nobody waits"


def test_a_refused_child_is_not_awaited_afresh(world: World) -> None:
    world.run("child", RunState.refused)
    parent = world.start("parent")
    world.child(parent, 1, "child")
    with world.database.write() as unit:
        unit.endings.redeliver(world_lease(unit, parent), RunError("k", "uncaught"), unit.now, failed_step=1)
        (step,) = unit.runs.steps(parent.run_id)
    assert step.state is StepState.failed


def world_lease(unit: Any, parent: Lease) -> Lease:
    (leased,) = unit.leases.lease("w", timedelta(days=9999), ["f"], 1)
    assert leased.run.id == parent.run_id
    return leased.lease


def test_a_long_result_goes_and_whoever_awaits_the_key_is_told(world: World) -> None:
    lease = world.start("long")
    world.end(lease, result=f'"{"x" * 5000}"')
    world.clock.advance(91 * DAY)
    world.prune()
    parent = world.start("parent")
    world.child(parent, 1, "long")
    with world.database.read() as unit:
        (step,) = unit.runs.steps(parent.run_id)
    assert step.state is StepState.failed
    assert step.error is not None
    assert "no longer kept" in step.error.message


def test_a_run_that_a_live_card_stands_on_is_kept(world: World) -> None:
    for number, state in enumerate((ClaimState.claimed, ClaimState.backoff, ClaimState.done)):
        world.card(f"c{number}", world.run(f"k{number}", object_id=f"c{number}"), state)
    world.card("c3", world.run("k3", RunState.parked, object_id="c3"), ClaimState.done)
    world.clock.advance(200 * DAY)
    assert world.prune()["runs"] == 1
    assert [world.details(f"k{number}") for number in range(4)] == ["whole", "whole", "gone", "whole"]


def test_the_board_log_keeps_what_explains_a_value_on_a_card(world: World) -> None:
    done, live = world.run("done", object_id="c-done"), world.run("live", object_id="c-live")
    now = world.clock.now()
    world.card("c-done", done, ClaimState.done, settled_at=now)
    world.card("c-live", live, ClaimState.claimed, settled_at=now)

    def log(card_id: str, run_id: str | None, outcome: str, sent_at: datetime) -> None:
        world.add(
            BOARD_LOG, board="b", card_id=card_id, run_id=run_id, fence=1, kind="claim", wanted={}, sent_at=sent_at,
            outcome=outcome,
        )  # fmt: skip

    log("c-done", done, "applied", now)
    log("c-done", done, "unknown", now)
    log("c-done", done, "unknown", now - 2 * DAY)
    log("c-live", live, "applied", now)
    log("c-live", None, "unknown", now - 2 * DAY)
    log("c-nobody", None, "applied", now)
    world.clock.advance(91 * DAY)
    log("c-done", done, "applied", world.clock.now())
    looked = world.prune(look=True)
    assert world.prune()["board_log"] == 2
    assert looked["board_log"] == 2
    with world.database.read() as unit:
        left = unit.connection.execute(select(BOARD_LOG.c.card_id, BOARD_LOG.c.outcome).order_by(BOARD_LOG.c.id)).all()
    assert [tuple(row) for row in left] == [
        ("c-done", "unknown"),
        ("c-live", "applied"),
        ("c-live", "unknown"),
        ("c-nobody", "applied"),
        ("c-done", "applied"),
    ]


def test_keys_go_only_when_that_is_wanted_and_no_card_names_them(world: World) -> None:
    world.run("a")
    world.card("c", world.run("b", object_id="c"), ClaimState.done)
    world.clock.advance(500 * DAY)
    assert "keys" not in world.prune()
    ages = Ages(90 * DAY, 90 * DAY, 180 * DAY, 400 * DAY, 90 * DAY)
    assert world.prune(ages, look=True)["keys"] == 1
    assert world.prune(ages) == {"keys": 1}
    assert (world.details("a"), world.details("b")) == (None, "gone")


def test_a_timeline_may_go_before_its_run(world: World) -> None:
    run_id = world.run("a")
    world.run("failed", RunState.failed)
    world.clock.advance(31 * DAY)
    ages = Ages(30 * DAY, 90 * DAY, 180 * DAY, None, 90 * DAY)
    assert world.prune(ages, look=True) == {"timeline": 6}
    assert world.prune(ages) == {"timeline": 6}
    assert (world.rows(STEPS, run_id), world.details("a")) == (1, "whole")
    assert world.rows(TIMELINE) == 6, "that of the failed one"


def test_old_occurrences_go(world: World) -> None:
    now = world.clock.now()
    for days in (1, 89, 91, 200):
        at = now - days * DAY
        world.add(
            OCCURRENCES, poll_id="p", due_at=at, state="ok", started_at=at, finished_at=at, definition_version="",
            condition_version="",
        )  # fmt: skip
    assert world.prune(look=True) == {"occurrences": 2}
    assert world.prune(rows=1) == {"occurrences": 2}
    assert world.rows(OCCURRENCES) == 2


class Died(Exception):
    pass


def dying_after(transactions: int) -> Any:
    left = transactions

    def rest() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Died

    return rest


def test_a_run_with_more_rows_than_go_at_once_is_marked_before_the_first_goes(world: World) -> None:
    lease = world.start("long")
    for seq in range(1, 40):
        world.step(lease, seq)
    world.end(lease, RunState.failed)
    world.clock.advance(181 * DAY)
    before = world.rows(STEPS) + world.rows(TIMELINE)
    with pytest.raises(Died):
        world.prune(rows=20, rest=dying_after(2))
    assert world.rows(STEPS) + world.rows(TIMELINE) == before - 40
    assert world.details("long") == "going"
    with world.database.write() as unit:
        assert unit.runs.resume(lease.run_id) is Resumed.forgotten
    removed = world.prune(rows=20)
    assert removed["steps"] + removed["timeline"] == before - 40
    assert "runs" not in removed, "it was counted when it was marked"
    assert world.details("long") == "gone"
    assert (world.rows(STEPS), world.rows(TIMELINE)) == (0, 0)


def test_a_run_that_was_resumed_meanwhile_is_left_alone(world: World) -> None:
    lease = world.start("a")
    for seq in range(1, 10):
        world.step(lease, seq)
    world.end(lease, RunState.failed)
    world.run("b", RunState.failed)
    world.clock.advance(181 * DAY)
    with world.database.read() as unit:
        cutoffs = AGES.cutoffs(unit.now)
        page = unit.retention.old_runs(cutoffs, None)
    with world.database.write() as unit:
        unit.runs.resume(lease.run_id)
    while page:
        with world.database.write() as unit:
            page = unit.retention.forget_runs(page, cutoffs, 15, going=set()).left
    assert (world.details("a"), world.details("b")) == ("whole", "gone")
    assert world.rows(STEPS, lease.run_id) == 9


@pytest.fixture
def many(world: World) -> int:
    """Ten thousand runs, every second with a child that it awaits."""
    count, now = 10_000, world.clock.now()
    runs, steps, entries = [], [], []
    for number in range(count):
        ended = now + timedelta(seconds=number // 2 * 2 + (1 - number % 2))  # the parent is the even one
        runs.append(
            {
                "id": f"r{number:05}", "key": f"k{number}", "kind": "function", "function": "f", "args": "{}",
                "state": "succeeded", "created_at": now, "changed_at": ended, "finished_at": ended, "result": "1",
            }
        )  # fmt: skip
        awaits = f"r{number + 1:05}" if number % 2 == 0 else None
        for seq in (1, 2):
            steps.append(
                {
                    "run_id": f"r{number:05}", "seq": seq, "kind": "command", "name": "c", "state": "done",
                    "awaits_run_id": awaits if seq == 1 else None,
                }
            )  # fmt: skip
        entries += [{"run_id": f"r{number:05}", "at": ended, "what": "attempt", "detail": "{}"} for _ in range(4)]
    with world.database.write() as unit:
        for table, rows in ((RUNS, runs), (STEPS, steps), (TIMELINE, entries)):
            for start in range(0, len(rows), 2000):
                unit.connection.execute(insert(table), rows[start : start + 2000])
    with world.database.write() as unit:
        unit.connection.exec_driver_sql("ANALYZE")
    return count


def test_ten_thousand_runs_go_in_small_transactions(world: World, many: int) -> None:
    world.clock.advance(91 * DAY)
    rows, statements = [], []

    def executed(_conn: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE"):
            rows[-1] += cursor.rowcount
        statements[-1] += 1

    def begun(_conn: Any) -> None:
        rows.append(0)
        statements.append(0)

    event.listen(world.database.engine, "begin", begun)
    event.listen(world.database._bookkeeping, "begin", begun)
    for engine in {world.database.engine, world.database._bookkeeping}:
        event.listen(engine, "after_cursor_execute", executed)
    looked = world.prune(look=True)
    removed = world.prune(rows=500)
    assert removed == looked == {"runs": many, "steps": 2 * many, "timeline": 4 * many}
    assert max(rows) <= 500
    assert max(statements) <= 20
    assert (world.rows(STEPS), world.rows(TIMELINE), world.rows(RUNS)) == (0, 0, many)
    assert world.prune() == {}


def test_the_old_are_found_without_reading_the_young(world: World) -> None:
    if world.database.engine.dialect.name != "sqlite":
        return  # the same statement and the same index
    said: list[tuple[str, Any]] = []

    def executing(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    event.listen(world.database.engine, "before_cursor_execute", executing)
    with world.database.read() as unit:
        unit.retention.old_runs(AGES.cutoffs(unit.now), (unit.now, "r"))
        unit.retention.old_timelines(AGES.cutoffs(unit.now), (unit.now, "r"))
        for statement, parameters in list(said):
            plan = unit.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            assert "SEARCH runs USING INDEX ix_runs_over (finished_at" in str(plan[0]), plan


def test_an_interrupted_going_over_is_gone_on_with_next_time(world: World, many: int) -> None:
    world.clock.advance(91 * DAY)
    with pytest.raises(Died):
        world.prune(rows=500, rest=dying_after(7))
    left = world.rows(TIMELINE)
    assert 0 < left < 4 * many
    removed = world.prune(rows=2000)
    assert removed["timeline"] == left
    assert world.rows(STEPS) == 0


def test_one_process_at_a_time_has_the_turn_until_it_is_over(world: World) -> None:
    world.run("a")
    world.clock.advance(91 * DAY)
    with world.database.write() as unit:
        assert unit.retention.take_turn("another", unit.now + timedelta(minutes=10))
    assert Pruning(world.database, AGES, "me").work() is False
    assert world.details("a") == "whole"
    world.clock.advance(timedelta(minutes=11))
    world.prune()
    assert world.details("a") == "gone"
    with world.database.read() as unit:
        assert unit.connection.execute(select(PLACES.c.run_id)).scalar_one() is None, "the turn is given back"
