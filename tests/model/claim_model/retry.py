"""Between two deliveries of an exclusive card, and a parked card that goes on (`hermes/claim/retry.py`)."""

from __future__ import annotations

from claim_model import claiming, holding
from claim_model.settings import Mode, Settings
from claim_model.values import FINAL, NOBODY, Job, Page, Run, RunState, State, Status, Step, World, Write


def held_after_failure(mode: Mode, settings: Settings) -> bool:
    """`hold_on_redelivery`, `retry.py:never_in_todo`: a started card of a shared board keeps its claim."""
    return mode is not Mode.shared or not settings.rules.started_stays_claimed


def show_retry(world: World, index: int, settings: Settings) -> Step:
    """`retry.py:show_retry`, after its GET: Todo with RetryCount + 1."""
    page, database = world.threads[index].page, world.databases[settings.threads[index].database]
    assert page is not None
    row, count = database.row, database.row.retries + 1
    already = page.status is Status.todo and page.retries == count and page.run == row.run and not page.trash
    if already:
        return shown(world, index, settings)
    if page.trash or page.status is not Status.progress:
        return claiming.stop(world, index, "sees that a person moved the card: the run stops", settings)
    back = Write(Job.retry, Status.todo, claimed=False, expires=0, retries=count, saw=page.moves)
    return holding.log(world, index, back, settings)


def shown(world: World, index: int, settings: Settings) -> Step:
    """The retry stands on the board: wait until the run is due."""
    row = world.databases[settings.threads[index].database].row
    row = holding.answered(row, Write(Job.retry, Status.todo, retries=row.retries + 1))
    row = holding.settled(row, settings)
    changes = row._replace(state=State.backoff, retries=row.retries + 1, expires=0)._asdict()
    step = holding.let_go(
        world, index, "has shown the retry", settings, **changes | {"holder": NOBODY, "hold": 0, "verify": False}
    )
    return step._replace(world=holding.settle_queries(step.world, settings.threads[index].database, settings))


def reclaim(world: World, index: int, settings: Settings) -> Step:
    """`retry.py:reclaim`, after its GET: claim the card again for the same run, among rivals by the shared protocol."""
    page, mine = world.threads[index].page, settings.threads[index].database
    assert page is not None
    database = world.databases[mine]
    row, rules = database.row, settings.rules
    landed = page.status is Status.progress and page.run == row.run and not page.trash
    if not landed and row.resume and not page.trash and page.status in (Status.failed, Status.attention):
        if rules.resume_from_todo_alone:
            return claiming.shown_unfinished(world, index, settings)
    elif not landed and (page.trash or page.status is not Status.todo):
        return claiming.stop(world, index, "sees that a person moved the card: the run stops", settings)
    if page.text != row.text and not landed and not row.resume:
        return _start_afresh(world, index, settings)
    rivals = settings.modes[mine] is not Mode.exclusive and rules.reclaim_settles
    if landed and rivals:
        return claiming.unread(world, index, page, settings)
    if landed:
        return claiming.start(world, index, "finds its claim on the page and goes on", page, settings)
    if rivals and claiming.claimed_elsewhere(page, mine):
        return claiming.stop(world, index, "finds it claimed: the run stops", settings)
    write = claiming.claim_values(world, index, Job.reclaim, row, page.moves, settings)
    return holding.log(world, index, write, settings)


def _start_afresh(world: World, index: int, settings: Settings) -> Step:
    """`retry.py:_start_afresh`: edited while it waited. The run is cancelled, the card a candidate again."""
    return reopen(world, index, "sees an edit: a new generation", settings)


def reopen(world: World, index: int, what: str, settings: Settings) -> Step:
    """`store/claims.py:reopen`: its next reservation has the next generation, and so a new key."""
    return holding.let_go(
        world,
        index,
        what,
        settings,
        its_run=Run(),
        state=State.candidate,
        hint=settings.hint,
        run=0,
        retries=0,
        resume=False,
        shared=False,
    )


def ask_again(world: World, index: int, page: Page, settings: Settings) -> Step:
    """`finish.py:ask_again`: a person put it back to Todo. A parked run goes on under its key; on a shared board only
    where nobody has had the card since."""
    mine = settings.threads[index].database
    run, row = world.databases[mine].run, world.databases[mine].row
    ours = settings.modes[mine] is not Mode.shared or page.run in (0, row.run)
    if run.state is RunState.parked and ours:
        again = run._replace(
            state=RunState.ready, held=True, stop=False, intent=False, driver=NOBODY, asking=page.asking + row.text
        )
        what = "sees it asked for again: the parked run goes on"
        return holding.let_go(world, index, what, settings, its_run=again, state=State.backoff, resume=True)
    assert run.state in (*FINAL, RunState.none) or not settings.rules.stop_before_again
    return reopen(world, index, "sees it asked for again: a new generation", settings)
