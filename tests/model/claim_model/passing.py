"""A tick of time."""

from __future__ import annotations

from claim_model import upkeep
from claim_model.settings import Settings
from claim_model.values import (
    FINAL,
    NOBODY,
    At,
    Database,
    Job,
    Logged,
    Page,
    RunState,
    State,
    Step,
    Steps,
    Thread,
    World,
)

PROMPT = (At.held, At.read, At.logged, At.answered)


def steps(world: World, settings: Settings) -> Steps:
    """Nothing stays under way for longer than z."""
    if any(request.age >= settings.z for request in world.requests):
        return
    if settings.punctual and _overdue(world, settings):
        return
    after = _tick(world, settings)
    if after != world:
        yield Step("tick", after)


def _overdue(world: World, settings: Settings) -> bool:
    """A thread of the desk could go on, or a claim could be extended or read back."""
    if any(thread.at in PROMPT and thread.job is not Job.claim for thread in world.threads):
        return True
    return any(_wants_a_look(world, database, settings) for database in world.databases)


def _wants_a_look(world: World, database: Database, settings: Settings) -> bool:
    row, run = database.row, database.run
    if row.holder != NOBODY:
        return False
    live = row.state is State.claimed and run.state not in (*FINAL, RunState.none)
    return (live and upkeep.must_extend(world, row, settings)) or (row.state is State.settling and row.due == 0)


def _tick(world: World, settings: Settings) -> World:
    return world._replace(
        page=_older(world.page, settings),
        past=tuple(
            sorted({(age + 1, _older(page, settings)) for age, page in world.past if age + 1 <= settings.query_lag})
        ),
        requests=tuple(request._replace(age=request.age + 1) for request in world.requests),
        databases=tuple(
            database._replace(
                row=database.row._replace(
                    hold=max(0, database.row.hold - 1),
                    unknown=max(0, database.row.unknown - 1),
                    due=max(0, database.row.due - 1),
                    hint=max(0, database.row.hint - 1),
                    expires=max(0, database.row.expires - 1),
                    log=tuple(_logged(entry, settings) for entry in database.row.log),
                )
            )
            for database in world.databases
        ),
        threads=tuple(_waited(thread, settings) for thread in world.threads),
    )


def _older(page: Page, settings: Settings) -> Page:
    if page.by_hand and page.since_moved <= settings.window > 0:
        page = page._replace(since_moved=page.since_moved + 1)
    return page._replace(expires=page.expires - 1) if page.expires else page


def _logged(entry: Logged, settings: Settings) -> Logged:
    return entry._replace(age=min(settings.wait_out + 1, entry.age + 1))


def _waited(thread: Thread, settings: Settings) -> Thread:
    if thread.at is At.idle:
        return thread
    by_guard = thread.job in (Job.claim, Job.reclaim)
    return thread._replace(
        since_get=min(settings.guard + 1, thread.since_get + 1) if by_guard else 0,
        since_log=min(settings.wait_out + 1, thread.since_log + 1) if thread.at is At.logged else 0,
        page=_older(thread.page, settings) if thread.page else None,
    )
