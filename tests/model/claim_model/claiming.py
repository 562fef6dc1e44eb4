"""From a candidate to a run, and what became of an interrupted claim (`hermes/claim/claiming.py`, `start.py`)."""

from __future__ import annotations

from claim_model import holding
from claim_model.settings import Mode, Settings
from claim_model.values import (
    NOBODY,
    Job,
    Page,
    Row,
    Run,
    RunState,
    State,
    Status,
    Step,
    Steps,
    World,
    Write,
    fresh_run,
    installation,
)
from claim_model.writing import among_rivals


def reserve(world: World, index: int, settings: Settings) -> Steps:
    """`store/claims.py:reserve`, `desk.py:_reserve`: a fresh hint, and which protocol, before anything is sent."""
    mine = settings.threads[index].database
    database = world.databases[mine]
    row = database.row
    if row.state is not State.candidate or not row.hint or row.unknown or database.stopped:
        return
    taken = row._replace(
        state=State.claiming,
        generation=row.generation + 1,
        run=fresh_run(world, mine),
        shared=settings.modes[mine] is not Mode.exclusive,
        resume=False,
        retries=0,
        due=0,
    )
    after = holding.hold(world, index, Job.claim, taken, settings)
    after = after.with_database(mine, after.databases[mine]._replace(run=Run()))
    broke = "STOP" if database.saw_stranger and settings.modes[mine] is not Mode.shared else None
    yield Step(f"{index} reserves the card as run {taken.run}", after, broke=broke)


def go(world: World, index: int, settings: Settings) -> Step:
    """`claiming.py:claim` after its GET, or at once where there is none: log the PATCH, or give the card back."""
    thread, mine = world.threads[index], settings.threads[index].database
    row, page = world.databases[mine].row, thread.page
    if page is not None and not _free_to_claim(page, mine, settings):
        return give_back(world, index, "finds it taken", settings, state=State.idle)
    saw = page.moves if page else NOBODY
    return holding.log(world, index, claim_values(world, index, Job.claim, row, saw, settings), settings)


def needs_get(world: World, index: int, settings: Settings) -> bool:
    return world.databases[settings.threads[index].database].row.shared and settings.rules.get_before_claim


def claim_values(world: World, index: int, job: Job, row: Row, saw: int, settings: Settings) -> Write:
    """`claiming.py:claim_values`."""
    mine = settings.threads[index].database
    others = (database.row.expires for other, database in enumerate(world.databases) if other != mine)
    after = not any(others)
    return Write(job, Status.progress, row.run, True, settings.lease, after=after, saw=saw)


def _free_to_claim(page: Page, mine: int, settings: Settings) -> bool:
    """`claiming.py:free_to_claim`."""
    if page.trash or claimed_elsewhere(page, mine):
        return False
    return page.status is Status.todo or (
        page.status is Status.progress and not settings.rules.expired_foreign_not_taken
    )


def claimed_elsewhere(page: Page, mine: int) -> bool:
    """`claiming.py:claimed_elsewhere`."""
    return page.claimed and installation(page.run) != mine and page.expires > 0


def acknowledged(world: World, index: int, settings: Settings) -> Step:
    """The claim's answer has come: exclusive starts by it, shared settles, late waits it out and starts nothing."""
    thread, mine = world.threads[index], settings.threads[index].database
    row, page = world.databases[mine].row, thread.page
    assert page is not None
    if page.trash:
        return holding.let_go(world, index, "finds it in the trash", settings, state=State.gone)
    if not among_rivals(world, index, settings):
        return start(world, index, "starts the run by the answer", page, settings)
    landed = holding.answered(row, Write(thread.job, Status.progress))
    late = settings.rules.guard and thread.since_get > settings.guard
    return holding.let_go(
        world,
        index,
        "was answered too late" if late else "was answered and settles",
        settings,
        state=State.claiming if late else State.settling,
        due=settings.wait_out if late else settings.settle,
        log=landed.log,
    )


def settle(world: World, index: int, settings: Settings) -> Step:
    """`claiming.py:settle`, after its GET."""
    page, row = _read(world, index, settings)
    if _ours(page, row) or not settings.rules.read_back:
        return start(world, index, "reads its claim back and starts the run", page, settings)
    return _not_ours(world, index, page, settings)


def recover(world: World, index: int, settings: Settings) -> Step:
    """`claiming.py:recover`, after its GET: its process died, or the answer was late or lost."""
    page, row = _read(world, index, settings)
    if not _ours(page, row):
        return _not_ours(world, index, page, settings)
    if not row.shared or not settings.rules.late_claim_not_started:
        return start(world, index, "finds its claim on the page and starts the run", page, settings)
    return unread(world, index, page, settings)


def unread(world: World, index: int, page: Page, settings: Settings) -> Step:
    """`claiming.py:unread`: a claim made among rivals, not read back in time. On a shared board it is left until it
    expires (a rival that works puts its name back before), then shown to people."""
    mine = settings.threads[index].database
    if settings.modes[mine] is not Mode.shared:
        what = "settles once more"
        return holding.let_go(world, index, what, settings, state=State.settling, due=settings.settle)
    if page.expires:
        return holding.let_go(world, index, "leaves it until it expires", settings, due=page.expires)
    shown = Write(Job.recover, Status.attention, expires=0, saw=page.moves)
    return holding.log(world, index, shown, settings)


def shown_unfinished(world: World, index: int, settings: Settings) -> Step:
    """`claiming.py:_leave_unfinished_claim`, answered."""
    database = world.databases[settings.threads[index].database]
    row = holding.settled(holding.answered(database.row, Write(Job.recover, Status.attention)), settings)
    run = database.run._replace(state=RunState.parked, held=False) if database.run.held else database.run
    changes = row._replace(state=State.done, resume=False)._asdict() | {"holder": NOBODY, "hold": 0, "verify": False}
    step = holding.let_go(world, index, "has shown that it was never started", settings, its_run=run, **changes)
    return _settle_queries(step, index, settings)


def start(world: World, index: int, what: str, page: Page, settings: Settings) -> Step:
    """`start.py:start`: from here on the row says that the card is ours, whatever the page says. Or, for a run that
    exists, `claiming.py:go_on`."""
    mine = settings.threads[index].database
    database = world.databases[mine]
    row, run = database.row, database.run
    again = run.state is not RunState.none
    text = row.text if again else page.text
    asking = page.asking + text
    run = run._replace(held=False, asking=asking) if again else Run(RunState.ready, asking=asking)
    row = holding.settled(holding.answered(row, Write(Job.claim, Status.progress)), settings)
    changes = row._replace(
        state=State.claimed,
        expires=page.expires,
        text=text,
        resume=False,
        started=max(row.started, asking),
        verify=False,
        due=0,
    )._asdict()
    unasked = not again and asking <= row.started
    step = holding.let_go(world, index, what, settings, its_run=run, **changes | {"holder": NOBODY, "hold": 0})
    if unasked and step.broke is None and not world.threads[index].stale:
        step = step._replace(broke="ASKED")
    if not world.threads[index].stale:
        step = step._replace(world=holding.renewed(step.world, mine))
    return _settle_queries(step, index, settings)


def give_back(world: World, index: int, what: str, settings: Settings, *, state: State) -> Step:
    """`start.py:give_back`: the claim surely does not stand on the board, and its generation is not used up."""
    row = world.databases[settings.threads[index].database].row
    return holding.let_go(
        world,
        index,
        what,
        settings,
        state=state,
        generation=row.generation - 1,
        run=0,
        hint=settings.hint,
        shared=False,
    )


def _not_ours(world: World, index: int, page: Page, settings: Settings) -> Step:
    """`claiming.py:_not_ours`."""
    database = world.databases[settings.threads[index].database]
    if database.run.state is not RunState.none:
        return stop(world, index, "finds that it lost the card", settings)
    if not page.trash and page.status is Status.todo:
        return give_back(world, index, "finds no claim on the page", settings, state=State.candidate)
    state = State.gone if page.trash else State.idle
    row = database.row
    changes = {"state": state, "generation": row.generation - 1, "run": 0, "shared": False}
    if page.trash and settings.rules.trashed_claim_is_kept:
        changes = {"state": state}
    return holding.let_go(world, index, "finds that it lost the card", settings, **changes)


def stop(world: World, index: int, what: str, settings: Settings, **changes: object) -> Step:
    """`stop.py:stop`: the run is asked to stop; when it has, `finish` leaves the card as it then stands."""
    run = stopped(world.databases[settings.threads[index].database].run)
    return holding.let_go(
        world, index, what, settings, its_run=run, **{"state": State.claimed, "resume": False, **changes}
    )


def stopped(run: Run) -> Run:
    """`store/runs.py:cancel`."""
    if run.state is RunState.ready:
        return run._replace(state=RunState.cancelled, held=False)
    return run._replace(stop=True) if run.state is RunState.running else run


def _ours(page: Page, row: Row) -> bool:
    """`claiming.py:_ours`: the RunId decides, not the name."""
    return not page.trash and page.status is Status.progress and page.run == row.run


def _read(world: World, index: int, settings: Settings) -> tuple[Page, Row]:
    page = world.threads[index].page
    assert page is not None
    return page, world.databases[settings.threads[index].database].row


def _settle_queries(step: Step, index: int, settings: Settings) -> Step:
    return step._replace(world=holding.settle_queries(step.world, settings.threads[index].database, settings))
