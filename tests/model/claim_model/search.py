"""Breadth first through everything that can happen, so that a counter-example is as short as any."""

from __future__ import annotations

import gc
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from claim_model import board, delivery, desk, faults, offers, passing, people
from claim_model.settings import Begin, Mode, Settings
from claim_model.values import (
    FINAL,
    NAMES,
    At,
    Database,
    Page,
    Row,
    Run,
    RunState,
    State,
    Status,
    Steps,
    Thread,
    World,
)

Part = TypeVar("Part")
Progress = Callable[[int, float], None]


def beginning(settings: Settings) -> World:
    databases = [Database() for _ in settings.modes]
    page = Page()
    if settings.begin is Begin.parked:
        page = Page(Status.attention, 1, claimed=True)
        row = Row(State.done, generation=1, run=1, started=0, shared=settings.modes[0] is not Mode.exclusive)
        databases[0] = Database(row, Run(RunState.parked, intent=True))
    elif settings.begin is Begin.foreign:
        page = Page(Status.progress, len(databases) * NAMES + 1, claimed=True)
    threads = tuple(Thread() for _ in settings.threads)
    return World(page, (), (), tuple(databases), threads, settings.budget)


def successors(world: World, settings: Settings) -> Steps:
    yield from board.steps(world, settings)
    for index in range(len(world.threads)):
        yield from offers.steps(world, index, settings)
        yield from desk.steps(world, index, settings)
        yield from delivery.steps(world, index, settings)
    yield from delivery.take_over(world, settings)
    yield from people.steps(world, settings)
    yield from faults.steps(world, settings)
    yield from passing.steps(world, settings)


def settled(world: World, settings: Settings) -> bool:
    """Nothing is under way, and the card is over: done, shown to people, or where a person left it. Or every
    installation has stopped claiming and says why, where it has a reason: another installation, or a lost database."""
    if world.requests or any(thread.at is not At.idle for thread in world.threads):
        return False
    strange = len(world.databases) > 1 or settings.begin is Begin.foreign or settings.budget.restores
    if strange and all(database.stopped for database in world.databases):
        return True
    if any(not _at_rest(database) for database in world.databases):
        return False
    return world.page.trash or world.page.status not in (Status.todo, Status.progress)


def _at_rest(database: Database) -> bool:
    over = database.run.state in (*FINAL, RunState.none)
    return over and database.row.state in (State.idle, State.done, State.gone)


@dataclass
class Found:
    states: int = 0
    seconds: float = 0.0
    complete: bool = False
    """Everything that can be reached was reached."""
    broken: dict[str, list[str]] = field(default_factory=dict)
    """By property: the shortest way to break it."""


def explore(
    settings: Settings,
    *,
    until: frozenset[str] = frozenset(),
    ignoring: frozenset[str] = frozenset(),
    live: bool = True,
    most: int = 10_000_000,
    progress: Progress | None = None,
) -> Found:
    """Everything that `settings` allow, or until one of `until` is broken. LIVE is judged when all is known."""
    gc.disable()  # tuples upon tuples and no cycle: looking for one takes most of the time
    began, found = time.monotonic(), Found()
    start = beginning(settings)
    worlds, numbers = [start], {start: 0}
    came, ways = array("q", [-1]), [""]
    onward: list[tuple[int, ...]] = []
    shared: dict[object, object] = {}
    waiting = deque([0])

    def way(to: int) -> list[str]:
        steps = []
        while to > 0:
            steps.append(ways[to])
            to = came[to]
        return steps[::-1]

    while waiting:
        at = waiting.popleft()
        hopeful = []
        for step in successors(worlds[at], settings):
            if step.broke and step.broke not in found.broken and step.broke not in ignoring:
                found.broken[step.broke] = [*way(at), step.what]
            number = numbers.get(step.world)
            if number is None:
                number = len(worlds)
                world = _with_shared_parts(step.world, shared)
                numbers[world] = number
                worlds.append(world)
                came.append(at)
                ways.append(_with_shared(step.what, shared))
                waiting.append(number)
            if not step.fault:
                hopeful.append(number)
        if live:
            onward.append(tuple(hopeful))
        if until & found.broken.keys() or len(worlds) > most:
            break
        if progress and at % 20_000 == 0:
            progress(len(worlds), time.monotonic() - began)
    else:
        found.complete = True
        if live and (stuck := _stuck(worlds, onward, settings)) is not None:
            found.broken["LIVE"] = [*way(stuck), f"nothing more can be hoped for: {worlds[stuck]}"]
    found.states, found.seconds = len(worlds), time.monotonic() - began
    gc.enable()
    return found


def _stuck(worlds: list[World], onward: list[tuple[int, ...]], settings: Settings) -> int | None:
    """The first world from which no fault-free way leads to a settled one (not AG EF settled)."""
    back: list[list[int]] = [[] for _ in worlds]
    for at, steps in enumerate(onward):
        for to in steps:
            back[to].append(at)
    waiting = [number for number, world in enumerate(worlds) if settled(world, settings)]
    hopeful = bytearray(len(worlds))
    for number in waiting:
        hopeful[number] = 1
    while waiting:
        for before in back[waiting.pop()]:
            if not hopeful[before]:
                hopeful[before] = 1
                waiting.append(before)
    return next((number for number in range(len(worlds)) if not hopeful[number]), None)


def _with_shared(part: Part, shared: dict[object, object]) -> Part:
    return shared.setdefault(part, part)  # type: ignore[return-value]


def _with_shared_parts(world: World, shared: dict[object, object]) -> World:
    """Most of a world is as it was in another: kept once, millions of worlds fit into memory."""
    return World._make(_with_shared(part, shared) for part in world)
