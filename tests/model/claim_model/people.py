"""People: they move, edit and trash the card whenever they like, and cancel its run."""

from __future__ import annotations

from claim_model import claiming
from claim_model.board import turn
from claim_model.settings import Settings
from claim_model.values import FINAL, Page, RunState, Status, Step, Steps, World

MOVES = (Status.todo, Status.cancelled, Status.complete)


def steps(world: World, settings: Settings) -> Steps:
    page = world.page
    if world.budget.people:
        for status in MOVES:
            if status is not page.status and not page.trash:
                moved = _touched(page, status is Status.todo)._replace(status=status, by_hand=status is not page.left)
                yield _step(world.spend(people=1), f"A PERSON moves the card to {status}", moved, settings)
        restored_to_todo = page.trash and page.status is Status.todo
        trashed = _touched(page, restored_to_todo)._replace(trash=not page.trash)
        what = "restores the card" if page.trash else "trashes the card"
        yield _step(world.spend(people=1), f"A PERSON {what}", trashed, settings)
    if world.budget.edits and page.status is Status.todo and not page.trash:
        edited = _touched(page, False)._replace(text=page.text + 1)
        yield _step(world.spend(edits=1), "A PERSON edits the text", edited, settings)
    if world.budget.cancels:
        yield from _cancel(world)


def _touched(page: Page, asked: bool) -> Page:
    return page._replace(since_moved=0, moves=page.moves + 1, asking=page.asking + asked)


def _step(world: World, what: str, page: Page, settings: Settings) -> Step:
    return Step(what, turn(world, page, settings), fault=True)


def _cancel(world: World) -> Steps:
    """`hermes-poll runs cancel` (`store/runs.py:cancel`); the card is looked at when the run is over."""
    for index, database in enumerate(world.databases):
        if database.run.state not in (*FINAL, RunState.none):
            run = claiming.stopped(database.run)
            # Who cancels a card that waits in Todo wants it shown as Failed: the hand before has no say any more.
            touched = world.page._replace(moves=world.page.moves + 1, by_hand=False)
            after = world.spend(cancels=1)._replace(page=touched)
            after = after.with_database(index, database._replace(run=run))
            yield Step(f"A PERSON cancels the run of database {index}", after, fault=True)
