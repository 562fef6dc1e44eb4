"""The demo says when something is not as it must be: each deviation by itself is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes.demo.board import SeenCard
from hermes.demo.scenario import CARDS, LONG_TEXT
from hermes.demo.verdict import Office, problems, settled
from hermes.model.run import Run, RunKind, RunState

TEXT = "All of it. 🎉 " * (LONG_TEXT // 10)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run_of(card_id: str, run_id: str, result: str) -> Run:
    return Run(
        id=run_id,
        key=f"{card_id}:1:demo",
        kind=RunKind.card,
        function="demo",
        args={},
        state=RunState.succeeded,
        deliveries=0,
        max_deliveries=3,
        crashes=0,
        take_overs=0,
        owner=None,
        fence=1,
        lease_until=None,
        due_at=None,
        held=False,
        created_at=NOW,
        started_at=NOW,
        finished_at=NOW,
        result=result,
        error=None,
        reason=None,
        poll_id="invoices",
        condition_version="1",
        object_id=card_id,
        parent_run_id=None,
    )


def effect(subject: str, key: str) -> dict[str, Any]:
    return {"subject": subject, "key": key, "effect": True}


class World:
    """Everything as it must be; a test spoils one thing."""

    def __init__(self) -> None:
        self.cards: dict[str, SeenCard] = {}
        self.runs: dict[str, Run] = {}
        self.office: list[dict[str, Any]] = []
        self.page = f"Result [hermes:x]\n\n{TEXT}"
        for number, card in enumerate(CARDS):
            card_id, run_id = f"card{number}", f"run{number}"
            self.cards[card.title] = SeenCard(
                id=card_id,
                title=card.title,
                status=card.ends or card.status,
                priority=card.priority,
                retry_count=int(card.retried),
                last_error=card.error,
                run_id=run_id if card.ends else "",
                claimed_by="hermes/x:1" if card.ends else "",
            )
            if card.ends:
                self.runs[card.title] = run_of(card_id, run_id, TEXT if card.long else "done")
            self.office += [effect(subject, f"{run_id}:{step}") for step, subject in enumerate(card.effects)]

    def problems(self) -> list[str]:
        office = Office(tuple(self.office))
        return problems(list(self.cards.values()), list(self.runs.values()), office, lambda _: self.page)

    def spoil(self, title: str, **changes: Any) -> None:
        self.cards[title] = replace(self.cards[title], **changes)


@pytest.fixture
def world() -> World:
    return World()


def title(**wanted: Any) -> str:
    return next(c.title for c in CARDS if all(getattr(c, name) == value for name, value in wanted.items()))


def test_a_world_as_it_must_be_has_no_problem(world: World) -> None:
    assert world.problems() == []


@pytest.mark.parametrize(
    ("card", "changes"),
    [
        (title(ends="Complete"), {"status": "Failed"}),
        (title(ends="Complete"), {"status": "InProgress"}),
        (title(ends="Complete"), {"last_error": "something is left"}),
        (title(ends="Complete"), {"run_id": "another"}),
        (title(ends="Failed"), {"last_error": "no idea"}),
        (title(ends="Failed"), {"status": "Complete"}),
        (title(retried=True), {"retry_count": 0}),
        (title(priority="Low"), {"status": "InProgress"}),
        (title(status="InProgress"), {"claimed_by": "hermes/x:1"}),
        (title(status="Cancelled"), {"run_id": "run1"}),
    ],
)
def test_a_card_that_is_not_as_it_must_be_is_named(world: World, card: str, changes: dict[str, Any]) -> None:
    world.spoil(card, **changes)
    (problem,) = world.problems()
    assert card in problem


def test_a_missing_card_is_named(world: World) -> None:
    lost = title(status="Complete")
    del world.cards[lost]
    assert world.problems() == [f"{lost!r} is not on the board"]


def test_a_second_run_of_a_card_is_named(world: World) -> None:
    card = title(ends="Complete")
    world.runs["again"] = replace(world.runs[card], id="another")
    (problem,) = world.problems()
    assert "2 runs" in problem


def test_a_key_that_took_effect_twice_is_named_with_its_subject(world: World) -> None:
    world.office.append(dict(world.office[0]))
    assert len(world.problems()) == 2


def test_a_card_that_was_done_twice_under_two_keys_is_named(world: World) -> None:
    world.office.append(effect(world.office[0]["subject"], "another:1"))
    (problem,) = world.problems()
    assert "2 times" in problem


def test_an_effect_that_did_not_happen_is_named(world: World) -> None:
    lost = world.office.pop(0)
    assert world.problems() == [f"{lost['subject']!r} took effect 0 times"]


def test_an_effect_that_nobody_asked_for_is_named(world: World) -> None:
    world.office.append(effect("Report on the stationery", "another:1"))
    (problem,) = world.problems()
    assert "nobody asked for" in problem


def test_a_long_text_that_is_cut_is_named(world: World) -> None:
    world.page = world.page[:-20]
    (problem,) = world.problems()
    assert "whole text" in problem


def test_a_long_text_that_is_short_is_named(world: World) -> None:
    card = title(long=True)
    world.runs[card] = replace(world.runs[card], result="short")
    (problem,) = world.problems()
    assert "5 characters" in problem


def test_the_demo_is_not_over_before_every_card_has_ended(world: World) -> None:
    assert settled(list(world.cards.values()))
    world.spoil(title(ends="Complete"), status="InProgress")
    assert not settled(list(world.cards.values()))
