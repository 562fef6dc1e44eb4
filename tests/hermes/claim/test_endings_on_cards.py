"""What an ending means for its card where a real worker brings it about (DESIGN.md section 5, the table of endings)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes import crash_points
from hermes.crash_points import CrashPoint
from hermes.durable import UnknownOutcome, command, delay, function
from hermes.durable.worker import Worker
from hermes.model.card import CardStatus
from hermes.model.run import RunState

changed = [False]


@command(name="tests.endings.pays", effect="naive")
def pays() -> None:
    raise UnknownOutcome("the line went dead")


@command(name="tests.endings.works", effect="none", retries=20)
def works() -> str:
    return "made"


@function(name="tests.endings.naive")
async def naive(title: str, text: str, body: str) -> str:
    await pays()
    return "?"


@function(name="tests.endings.changes")
async def changes(title: str, text: str, body: str) -> str:
    await (delay(timedelta(minutes=1)) if changed[0] else works())
    await delay(timedelta(minutes=1))
    return "?"


@function(name="tests.endings.works_once")
async def works_once(title: str, text: str, body: str) -> str:
    return await works()


class Killed(BaseException):
    pass


def die_at(point: CrashPoint) -> None:
    def die(reached: CrashPoint) -> None:
        if reached is point:
            raise Killed

    crash_points.arm(die)


def deliver(team, hermes, worker: Worker) -> None:
    hermes.desk.tick()
    worker.run_due()
    hermes.desk.tick()


def a_worker_dies(team, hermes, worker: Worker) -> None:
    hermes.desk.tick()
    die_at(CrashPoint.effect_sent)
    try:
        with pytest.raises(Killed):
            worker.run_due()
    finally:
        crash_points.arm(None)
    hermes.desk.tick()


@pytest.mark.parametrize("why", ["naive", "changes", "poison"])
def test_what_needs_a_person_asks_for_one(team, hermes, why) -> None:
    hermes.function = "tests.endings.works_once" if why == "poison" else f"tests.endings.{why}"
    changed[0] = False
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    worker = Worker(hermes.store, team.clock)
    if why == "poison":
        for _ in range(5):
            a_worker_dies(team, hermes, worker)
            assert team.status(card_id) is CardStatus.in_progress
            team.clock.advance(timedelta(seconds=91))
            worker.rescue()
            team.clock.advance(timedelta(minutes=5))
    deliver(team, hermes, worker)
    changed[0] = True
    team.clock.advance(timedelta(minutes=2))
    deliver(team, hermes, worker)
    run, shown = hermes.run_of(card_id), team.card(card_id)
    assert (run.state, run.deliveries) == (RunState.parked, 0)
    assert (shown.status, shown.retry_count) == (CardStatus.failed, 0)
    assert (shown.last_error or "").startswith("Needs attention: ")
    assert f"hermes-poll runs resume {run.id}" in (shown.last_error or "")


def test_a_take_over_changes_nothing_on_the_card(team, hermes) -> None:
    hermes.function = "tests.endings.works_once"
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    worker = Worker(hermes.store, team.clock)
    a_worker_dies(team, hermes, worker)
    before = team.card(card_id)
    team.clock.advance(timedelta(seconds=91))
    worker.rescue()
    hermes.desk.tick()
    taken = team.card(card_id)
    assert (taken.status, taken.run_id, taken.claimed_by) == (CardStatus.in_progress, before.run_id, before.claimed_by)
    assert (taken.retry_count, taken.last_error) == (0, None)
    deliver(team, hermes, worker)
    run, shown = hermes.run_of(card_id), team.card(card_id)
    assert (run.state, run.take_overs, run.deliveries) == (RunState.succeeded, 1, 0)
    assert (shown.status, shown.retry_count) == (CardStatus.complete, 0)
