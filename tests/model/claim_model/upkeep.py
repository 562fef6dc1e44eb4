"""A claimed card whose run goes on: its expiry, and what people and late writes do to it (`hermes/claim/upkeep.py`)."""

from __future__ import annotations

from claim_model import claiming, holding, retry
from claim_model.settings import Settings
from claim_model.values import FINAL, NOBODY, Job, Page, Row, Status, Step, World, Write, installation


def must_extend(world: World, row: Row, settings: Settings) -> bool:
    """`expiry.py:must_extend`: less than a third of the lease is left. Without leases, now and then."""
    if not settings.rules.heartbeat:
        return False
    return 3 * row.expires < settings.lease if settings.lease else world.budget.extends > 0


def log_extension(world: World, index: int, settings: Settings) -> Step:
    world = world if settings.lease else world.spend(extends=1)
    return holding.log(world, index, Write(Job.extend, expires=settings.lease, saw=NOBODY), settings)


def observe(world: World, index: int, settings: Settings) -> Step:
    """`upkeep.py:_observe`, of a GET or of the answer to an extension."""
    thread, mine = world.threads[index], settings.threads[index].database
    database, page = world.databases[mine], thread.page
    assert page is not None
    row = database.row
    given_away = _given_away(page, row, mine)
    if thread.job is Job.extend and not page.trash and not thread.stale:
        row = holding.settled(row, settings)._replace(expires=settings.lease)
        world = holding.renewed(world.with_database(mine, database._replace(row=row)), mine)
    if database.run.state in FINAL:  # it ended meanwhile: the next look finishes the card
        return holding.let_go(world, index, "finds the run over", settings)
    if not page.trash and page.status is Status.progress and not given_away:
        if page.run not in (0, row.run):
            return _reassert(world, index, row, page, settings)
        return holding.let_go(world, index, "sees that all is well", settings)
    ours = settings.rules.requeue_by_log and holding.explained(row, page, settings)
    if not page.trash and ours:
        return _reassert(world, index, row, page, settings)
    if not settings.rules.stop_before_again and page.status is Status.todo and not page.trash:
        return retry.ask_again(world, index, page, settings)
    step = claiming.stop(world, index, "sees that the card was taken away: the run stops", settings)
    return step._replace(broke=step.broke or ("HAND" if world.page.moves == 0 else None))


def reasserted(world: World, index: int, settings: Settings) -> Step:
    row = world.databases[settings.threads[index].database].row
    row = holding.settled(holding.answered(row, Write(Job.reassert, Status.progress)), settings)
    return holding.let_go(world, index, "has put its claim back", settings, log=row.log)


def _reassert(world: World, index: int, row: Row, page: Page, settings: Settings) -> Step:
    """`upkeep.py:_reassert`: a status that is right is not written."""
    status = None if page.status is Status.progress else Status.progress
    write = Write(Job.reassert, status, run=row.run, claimed=True, saw=page.moves)
    return holding.log(world, index, write, settings)


def _given_away(page: Page, row: Row, mine: int) -> bool:
    """`upkeep.py:_given_away`: a claim of another installation, made after ours had run out."""
    return page.run not in (0, row.run) and page.claimed and installation(page.run) != mine and page.after
