"""Another installation's claim that ran out long ago: shown to people, never taken (`hermes/claim/adopt.py`)."""

from __future__ import annotations

from claim_model import holding
from claim_model.offers import is_abandoned
from claim_model.settings import Settings
from claim_model.values import Job, State, Status, Step, World, Write


def look(world: World, index: int, settings: Settings) -> Step:
    """`adopt.py:_write_where_it_stands`, after its GET."""
    page = world.threads[index].page
    assert page is not None
    if not is_abandoned(page, settings.threads[index].database):
        return holding.let_go(world, index, "finds that it is not abandoned", settings, state=State.idle)
    return holding.log(world, index, Write(Job.abandon, Status.attention, saw=page.moves), settings)


def shown(world: World, index: int, settings: Settings) -> Step:
    """`adopt.py:_let_go`."""
    row = world.databases[settings.threads[index].database].row
    row = holding.settled(holding.answered(row, Write(Job.abandon, Status.attention)), settings)
    return holding.let_go(world, index, "has told people", settings, state=State.idle, log=row.log)
