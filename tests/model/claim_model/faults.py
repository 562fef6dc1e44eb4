"""kill -9, and a database restored from before it knew the card. Time-outs are in `writing`, suspensions in `delivery`:
and any thread may stand still for any time wherever it is, for nothing makes it go on."""

from __future__ import annotations

from claim_model.board import forsake
from claim_model.settings import Settings
from claim_model.values import NOBODY, At, Database, Row, Step, Steps, Thread, World


def steps(world: World, settings: Settings) -> Steps:
    if world.budget.kills:
        for index, thread in enumerate(world.threads):
            if thread.at is not At.idle:
                yield _kill(world, index, thread, settings)
    if world.budget.restores:
        for index in range(len(world.databases)):
            yield _restore(world, index, settings)


def _kill(world: World, index: int, thread: Thread, settings: Settings) -> Step:
    after = _dead(world.spend(kills=1), index, settings)
    return Step(f"{index} is KILLED where it {thread.at} ({thread.job})", after, fault=True)


def _dead(world: World, index: int, settings: Settings) -> World:
    """Its hold runs on; its run waits to be taken over."""
    world = forsake(world, index).with_thread(index, Thread())
    mine = settings.threads[index].database
    database = world.databases[mine]
    if database.run.driver == index:
        return world.with_database(mine, database._replace(run=database.run._replace(driver=NOBODY)))
    return world


def _restore(world: World, mine: int, settings: Settings) -> Step:
    after = world.spend(restores=1)
    for index, thread in enumerate(settings.threads):
        if thread.database == mine:
            after = _dead(after, index, settings)
    forgotten = Database(row=Row(started=world.databases[mine].row.started))
    return Step(f"database {mine} is RESTORED from an old copy", after.with_database(mine, forgotten), fault=True)
