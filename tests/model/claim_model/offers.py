"""What a query means: a hint, a suspicion, another installation (`hermes/claim/offers.py`)."""

from __future__ import annotations

from claim_model import board, holding
from claim_model.settings import Mode, Settings
from claim_model.values import At, Database, Job, Page, Row, State, Status, Step, Steps, Thread, World, installation

OPEN = (State.claiming, State.settling, State.claimed, State.backoff)


def steps(world: World, index: int, settings: Settings) -> Steps:
    thread = world.threads[index]
    if thread.at is At.idle and settings.threads[index].desk:
        for page in board.versions(world):
            if settings.slow_queries:
                asked = world.with_thread(index, Thread(at=At.asked, page=page))
                yield Step(f"{index} queries the board: {page.status}, run {page.run}", asked)
            else:
                yield _record(world, index, page, False, settings)
        yield from _abandoned(world, index, settings)
    elif thread.at is At.asked and thread.page is not None:
        yield _record(world, index, thread.page, thread.settled, settings)


def _record(world: World, index: int, page: Page, overtaken: bool, settings: Settings) -> Step:
    """`offers.py:take_in`: one transaction."""
    mine = settings.threads[index].database
    row = world.databases[mine].row
    forgotten = _forgotten(row, page, mine, overtaken)
    if settings.rules.forgotten_by_get:
        forgotten = forgotten and _forgotten(row, world.page, mine, False)
    taken = take_in(world.databases[mine], page, mine, overtaken, forgotten, settings)
    what = f"{index} records a query: {page.status}, run {page.run}"
    broke = "KNOWN" if forgotten and not settings.budget.restores else None
    return Step(what, world.with_database(mine, taken).with_thread(index, Thread()), broke=broke)


def _abandoned(world: World, index: int, settings: Settings) -> Steps:
    """`adopt.py:show_abandoned`, on a shared board: another installation's claim that ran out long ago."""
    mine = settings.threads[index].database
    row, page = world.databases[mine].row, world.page
    if settings.grace or settings.modes[mine] is not Mode.shared or not settings.rules.abandoned_is_shown:
        return
    if row.state not in OPEN and holding.may_hold(row) and is_abandoned(page, mine):
        after = holding.hold(world, index, Job.abandon, row._replace(state=State.idle, run=0), settings)
        yield Step(f"{index} looks at a claim that ran out long ago", after)


def is_abandoned(page: Page, mine: int) -> bool:
    """`offers.py:_abandoned`."""
    foreign = page.claimed and installation(page.run) != mine
    return foreign and page.status is Status.progress and not page.trash and page.expires == 0


def take_in(
    database: Database, page: Page, mine: int, overtaken: bool, forgotten: bool, settings: Settings
) -> Database:
    """`overtaken`: the row was settled after the query was asked."""
    foreign = _foreign(page, mine) and settings.modes[mine] is not Mode.shared
    if foreign or (forgotten and settings.rules.name_is_not_ownership):
        database = database._replace(saw_stranger=True, stopped=settings.rules.stranger_stops)
    row = database.row
    if page.status is Status.todo and not page.trash:
        return database._replace(row=_take_in_todo(row, overtaken, settings))
    if row.state is State.candidate:  # `withdraw_unseen`
        row = row._replace(state=State.idle, hint=0)
    back = row.state is State.gone and page.status is Status.progress and page.run == row.run != 0
    unseen = row.state is State.claimed and (page.trash or page.status is not Status.progress)
    overwritten = row.state is State.claimed and page.run not in (0, row.run)
    if (back or unseen or overwritten) and not overtaken:
        row = row._replace(verify=True)
    if row.state is State.idle and page.status is Status.progress and not page.trash:
        row = _take_what_nobody_seems_to_hold(row, page, mine, settings)
    return database._replace(row=row)


def _take_in_todo(row: Row, overtaken: bool, settings: Settings) -> Row:
    """`offers.py:_take_in_todo`. A card that was done with is only suspected: a GET must ask for it again."""
    if row.state in (State.done, State.gone):
        if not settings.rules.requeue_by_get:
            return row._replace(state=State.candidate, hint=settings.hint, run=0, verify=False)
        return row if overtaken else row._replace(verify=True)
    if row.state in (State.idle, State.candidate):
        return row._replace(state=State.candidate, hint=settings.hint)
    return row._replace(verify=True) if row.state is State.claimed and not overtaken else row


def _take_what_nobody_seems_to_hold(row: Row, page: Page, mine: int, settings: Settings) -> Row:
    """What the code does not do: each branch is a rule taken out."""
    if installation(page.run) == mine and page.claimed and not settings.rules.name_is_not_ownership:
        return row._replace(state=State.claiming, run=page.run, generation=row.generation + 1, shared=False)
    if page.expires == 0 and not settings.rules.expired_foreign_not_taken:
        return row._replace(state=State.candidate, hint=settings.hint)
    return row


def _foreign(page: Page, mine: int) -> bool:
    """`offers.py:strange_claim`: another installation's."""
    return page.status is Status.progress and page.claimed and installation(page.run) != mine and not page.trash


def _forgotten(row: Row, page: Page, mine: int, overtaken: bool) -> bool:
    """`offers.py:_forgotten`: ours, and our database knows nothing of it: it was restored or copied."""
    if page.status is not Status.progress or not page.claimed or page.trash or installation(page.run) != mine:
        return False
    known = row.run == page.run or row.state in OPEN
    return not known and not overtaken
