"""Cards whose runs a real worker drives, in this thread."""

from __future__ import annotations

from datetime import timedelta

from hermes.durable import Refused, command, delay, function
from hermes.durable.worker import Worker
from hermes.model.card import CardStatus
from hermes.model.run import RunState


@function(name="tests.w8.forgets")
async def forgets(title: str, text: str, body: str) -> str:
    return None  # type: ignore[return-value] -- the point of the test


@function(name="tests.declines")
async def declines(title: str, text: str, body: str) -> str | Refused:
    return Refused("the card was declined by the bank")


@command(name="tests.add_up")
def add_up(a: int, b: int) -> int:
    return a + b


@function(name="tests.adds")
async def adds(title: str, text: str, body: str) -> str:
    total = 0
    for number in range(5):
        total = await add_up(total, number)
    await delay(timedelta(minutes=5))
    return f"{title}: {total}"


def go_on(team, hermes, worker: Worker, minutes: int) -> None:
    for _ in range(minutes * 2):
        hermes.desk.tick()
        worker.run_due()
        hermes.desk.tick()
        team.clock.advance(timedelta(seconds=30))


def test_W8_an_action_without_a_result_is_tried_again_then_fails_with_a_reason(team, hermes) -> None:
    hermes.function = "tests.w8.forgets"
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    go_on(team, hermes, Worker(hermes.store, team.clock), 60)
    run = hermes.run_of(card_id)
    shown = team.card(card_id)
    assert (run.state, run.deliveries) == (RunState.failed, hermes.policy.max_attempts)
    assert (shown.status, shown.retry_count) == (CardStatus.failed, hermes.policy.max_attempts - 1)
    assert "result of tests.w8.forgets" in (shown.last_error or "")


def test_a_refusal_is_failed_at_once(team, hermes) -> None:
    hermes.function = "tests.declines"
    card_id = team.add()
    hermes.desk.ask(hermes.board)
    go_on(team, hermes, Worker(hermes.store, team.clock), 1)
    shown = team.card(card_id)
    assert (shown.status, shown.retry_count) == (CardStatus.failed, 0)
    assert shown.last_error == "the card was declined by the bank"


def test_five_commands_and_a_delay(team, hermes) -> None:
    hermes.function = "tests.adds"
    card_id = team.add("sum")
    hermes.desk.ask(hermes.board)
    worker = Worker(hermes.store, team.clock)
    go_on(team, hermes, worker, 4)
    assert team.status(card_id) is CardStatus.in_progress
    go_on(team, hermes, worker, 3)
    assert team.status(card_id) is CardStatus.complete
    assert "sum: 10" in team.board.read_body(card_id)
