"""A card whose run is over, and one that was done with and stands in Todo (`hermes/claim/finish.py`)."""

from __future__ import annotations

from claim_model import holding, retry
from claim_model.settings import Settings
from claim_model.values import (
    NOBODY,
    Database,
    Job,
    Page,
    Row,
    RunState,
    State,
    Status,
    Step,
    World,
    Write,
    installation,
)

PLACE = {
    RunState.succeeded: Status.complete,
    RunState.failed: Status.failed,
    RunState.parked: Status.attention,
    RunState.cancelled: Status.failed,
}
"""`endings.py:PLACE`."""


def finish(world: World, index: int, settings: Settings) -> Step:
    """`finish.py:finish`, after its GET."""
    mine, page = settings.threads[index].database, world.threads[index].page
    assert page is not None
    database = world.databases[mine]
    row, run = database.row, database.run
    expected = Status.todo if row.state is State.backoff else Status.progress
    if page.trash:
        return _close(world, index, "finds it in the trash", State.gone, settings)
    if _shows(page, database):
        return _close(world, index, "finds the ending shown", State.done, settings)
    if run.state is RunState.cancelled and _theirs(page, mine, row):
        return _close(world, index, "leaves the card to the other installation", State.done, settings)
    if page.status is expected or _late_write_of_ours(row, page, settings) or not settings.rules.get_before_ending:
        return _log_ending(world, index, page, settings)
    if page.status is Status.todo:
        return retry.ask_again(world, index, page, settings)
    return _close(world, index, "leaves the card where a person put it", State.done, settings)


def review(world: World, index: int, settings: Settings) -> Step:
    """`finish.py:review`, after its GET: a query showed Todo, or a card that was gone is back."""
    page = world.threads[index].page
    assert page is not None
    database = world.databases[settings.threads[index].database]
    row, run = database.row, database.run
    back = row.state is State.gone and page.status is Status.progress and page.run == row.run
    if page.trash:
        return _close(world, index, "finds it in the trash", State.gone, settings)
    if back:
        state = State.claiming if run.state is RunState.none else State.claimed
        return holding.let_go(world, index, "finds it back as it was", settings, state=state)
    if page.status is not Status.todo:
        return holding.let_go(world, index, "finds it moved on", settings, state=State.done)
    if run.state is not RunState.none and _late_write_of_ours(row, page, settings):
        return _log_ending(world, index, page, settings)
    return retry.ask_again(world, index, page, settings)


def ended(world: World, index: int, settings: Settings) -> Step:
    """The ending is shown."""
    row, thread = world.databases[settings.threads[index].database].row, world.threads[index]
    assert thread.page is not None
    row = holding.answered(row, Write(Job.finish, thread.page.status))
    return _close(world, index, "has shown the ending", State.done, settings, row)


def _log_ending(world: World, index: int, page: Page, settings: Settings) -> Step:
    """`finish.py:_write_ending`: where somebody wrote over our claim, the ending says whose it is."""
    database = world.databases[settings.threads[index].database]
    run = database.row.run
    status = PLACE[database.run.state]
    write = Write(Job.finish, status, expires=0, saw=page.moves)
    if page.run != run:
        write = write._replace(run=run, claimed=True)
    return holding.log(world, index, write, settings)


def _close(world: World, index: int, what: str, state: State, settings: Settings, row: Row | None = None) -> Step:
    mine = settings.threads[index].database
    row = holding.settled(row or world.databases[mine].row, settings)
    changes = row._replace(state=state, expires=0, resume=False)._asdict()
    step = holding.let_go(world, index, what, settings, **changes | {"holder": NOBODY, "hold": 0, "verify": False})
    return step._replace(world=holding.settle_queries(step.world, mine, settings))


def _shows(page: Page, database: Database) -> bool:
    wanted = PLACE[database.run.state]
    alike = (wanted, Status.failed) if wanted is Status.attention else (wanted,)
    return page.status in alike and page.run == database.row.run


def _theirs(page: Page, mine: int, row: Row) -> bool:
    """`finish.py:_theirs`: of a run that was stopped, another installation's claim is a claim like any other."""
    return page.claimed and installation(page.run) != mine and page.run != row.run


def _late_write_of_ours(row: Row, page: Page, settings: Settings) -> bool:
    return settings.rules.requeue_by_log and holding.explained(row, page, settings)
