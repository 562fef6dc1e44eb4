"""The board: a register without compare-and-set. Its queries lag; writes may land after their client left."""

from __future__ import annotations

from collections.abc import Iterable

from claim_model.settings import Settings
from claim_model.values import At, Job, Page, Request, Status, Step, Steps, Thread, World, Write


def shown(page: Page, write: Write, age: int) -> Page:
    """The page after `write`, which is `age` ticks old: an expiry is an instant, not a length."""
    status = page.status if write.status is None else write.status
    claim = write.job in (Job.claim, Job.reclaim)
    return page._replace(
        status=status,
        run=page.run if write.run is None else write.run,
        claimed=page.claimed if write.claimed is None else write.claimed,
        expires=page.expires if write.expires is None else max(0, write.expires - age),
        after=write.after if claim else page.after,
        retries=page.retries if write.retries is None else write.retries,
        left=status if write.status is not None else page.left,
        by_hand=page.by_hand and write.status is None,
        since_moved=page.since_moved if write.status is None else 0,
    )


def turn(world: World, page: Page, settings: Settings) -> World:
    """The page changes; queries may go on showing the old one."""
    if page == world.page:
        return world
    past = world.past
    if settings.query_lag:
        past = tuple(sorted({*past, (0, world.page)}))
    return world._replace(page=page, past=past)


def versions(world: World) -> list[Page]:
    """What a query may show now. A GET shows `world.page`."""
    return list(dict.fromkeys([world.page, *(page for _, page in world.past)]))


def steps(world: World, settings: Settings) -> Steps:
    for request in dict.fromkeys(world.requests):
        yield _applied(world, request, settings)
        if not request.awaited:
            yield Step(f"the late {request.write.job} of {request.sender} is lost", _without(world, request))


def _without(world: World, request: Request) -> World:
    at = world.requests.index(request)
    return world._replace(requests=world.requests[:at] + world.requests[at + 1 :])


def _applied(world: World, request: Request, settings: Settings) -> Step:
    """A page in the trash refuses every change; its client is told so."""
    write, after = request.write, _without(world, request)
    page = world.page
    if not page.trash:
        page = shown(page, write, request.age)
        after = turn(after, page, settings)
    if request.awaited:
        thread = after.threads[request.sender]
        after = after.with_thread(request.sender, thread._replace(at=At.answered, page=page))
    ghost = "" if request.awaited else "LATE "
    what = f"{ghost}{write.job} of {request.sender} lands: {page.status}, run {page.run}"
    return Step(what, after, broke=_overwrites(world.page, page, write, settings))


def _overwrites(old: Page, new: Page, write: Write, settings: Settings) -> str | None:
    """PEOPLE: what a person put there was seen by the GET on which this write was decided, and it is gone.

    A claim of a card that stands in Todo is what the person wants. A move made after that GET is the documented window
    (PROTOCOL.md, "Whose hand"); WINDOW: it has an end."""
    wished = old.status is Status.todo and write.job in (Job.claim, Job.reclaim)
    if not old.by_hand or new.status is old.status or wished:
        return None
    if write.saw == old.moves:
        return "PEOPLE"
    return "WINDOW" if 0 < settings.window < old.since_moved else None


def send(world: World, index: int, thread: Thread) -> World:
    assert thread.write is not None
    request = Request(0, index, True, thread.write)
    after = world._replace(requests=_sorted((*world.requests, request)))
    return after.with_thread(index, thread._replace(at=At.sent, since_log=0, write=None))


def forsake(world: World, index: int) -> World:
    """The client gave up or died: what it sent may still land."""
    requests = (r._replace(awaited=False) if r.sender == index and r.awaited else r for r in world.requests)
    return world._replace(requests=_sorted(requests))


def _sorted(requests: Iterable[Request]) -> tuple[Request, ...]:
    """In an order that depends on nothing but what they are: worlds that differ in it alone are one."""
    return tuple(sorted(requests, key=_order))


def _order(request: Request) -> tuple[object, ...]:
    write = request.write
    return request.age, request.sender, request.awaited, write.job, write.status or "", write.run or 0, write.saw
