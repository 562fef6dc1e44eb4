"""Holds on the card's row: taking one, writing under it, letting it go (`store/claims.py`)."""

from __future__ import annotations

from typing import Any

from claim_model.settings import Settings
from claim_model.values import (
    NOBODY,
    At,
    Database,
    Job,
    Logged,
    Page,
    Row,
    Status,
    Step,
    Thread,
    World,
    Write,
    installation,
)

DESK = (At.held, At.read, At.logged, At.sent, At.unanswered, At.answered)


def may_hold(row: Row) -> bool:
    """`store/claims.py:_due`: no hold runs, and nothing of unknown outcome may still land."""
    return row.hold == 0 and row.unknown == 0


def hold(world: World, index: int, job: Job, row: Row, settings: Settings) -> World:
    """`store/claims.py:_hold`, `reserve`: fence + 1, so whoever had the row before is stale from here on."""
    mine = settings.threads[index].database
    threads = tuple(
        thread._replace(stale=True) if thread.at in DESK and settings.threads[other].database == mine else thread
        for other, thread in enumerate(world.threads)
    )
    database = world.databases[mine]
    after = world._replace(threads=threads).with_database(
        mine, database._replace(row=row._replace(holder=index, hold=settings.hold))
    )
    return after.with_thread(index, Thread(at=At.held, job=job))


def change(world: World, index: int, what: str, settings: Settings, database: Database, thread: Thread) -> Step:
    """`store/claims.py:_change`: one conditional UPDATE. Zero rows means StaleHold: stop, write nothing."""
    mine, now = settings.threads[index].database, world.threads[index]
    if now.stale and settings.rules.fence:
        return Step(f"{index} is stale and stops", world.with_thread(index, Thread()))
    if settings.rules.hold_has_an_end and world.databases[mine].row.hold == 0:
        return Step(f"{index} has held the row for too long and stops", world.with_thread(index, Thread()))
    after = world.with_database(mine, database).with_thread(index, thread)
    return Step(f"{index} {what}", after, broke="FENCE" if now.stale else None)


def let_go(world: World, index: int, what: str, settings: Settings, **changes: Any) -> Step:
    """`store/claims.py:let_go`. `run=` replaces the run, everything else is a column of the row."""
    mine = settings.threads[index].database
    database = world.databases[mine]
    run = changes.pop("its_run", database.run)
    row = database.row._replace(**{"holder": NOBODY, "hold": 0, "due": 0, "verify": False, **changes})
    step = change(world, index, what, settings, database._replace(row=row, run=run), Thread())
    return step


def settled(row: Row, settings: Settings) -> Row:
    """`settled_at = now`: writes that can have landed only before it explain nothing any more
    (`hermes/claim/people.py:explained`)."""
    return row._replace(log=tuple(entry for entry in row.log if entry.age <= settings.wait_out))


def settle_queries(world: World, database: int, settings: Settings) -> World:
    """Queries that were asked before know less than `settled_at`."""
    threads = tuple(
        thread._replace(settled=True) if thread.at is At.asked and settings.threads[i].database == database else thread
        for i, thread in enumerate(world.threads)
    )
    return world._replace(threads=threads)


def renewed(world: World, mine: int) -> World:
    """Our claim runs anew: every claim that another installation has made so far was made before its end."""

    def before(write: Write | None) -> Write | None:
        return write._replace(after=False) if write and write.after and installation(write.run or 0) != mine else write

    page = world.page
    if page.after and installation(page.run) != mine:
        page = page._replace(after=False)
    requests = tuple(r._replace(write=before(r.write) or r.write) for r in world.requests)
    threads = tuple(thread._replace(write=before(thread.write)) for thread in world.threads)
    return world._replace(page=page, requests=requests, threads=threads)


def log(world: World, index: int, write: Write, settings: Settings) -> Step:
    """`hermes/claim/writing.py:write_card`: into the board log under the fence, and the hold is extended."""
    mine, rules = settings.threads[index].database, settings.rules
    database, thread = world.databases[mine], world.threads[index]
    row = database.row
    if rules.hold_during_write:
        row = row._replace(hold=settings.hold)
    if write.status is not None and rules.log_before_send:
        row = row._replace(log=noted(row.log, Logged(0, write.status, write.retries, write.claimed)))
    ready = thread._replace(at=At.logged, job=write.job, write=write, since_log=0)
    return change(world, index, f"logs {write.job}", settings, database._replace(row=row), ready)


def noted(entries: tuple[Logged, ...], entry: Logged) -> tuple[Logged, ...]:
    """Of writes that say the same the youngest explains most."""
    return tuple(sorted((*(e for e in entries if e[1:] != entry[1:]), entry), key=_order))


def _order(entry: Logged) -> tuple[int, Status, int]:
    return entry.age, entry.status, entry.retries or 0


def answered(row: Row, write: Write) -> Row:
    """`log_outcome(..., "applied")`: it landed before now."""
    return row._replace(log=tuple(e for e in row.log if (e.status, e.retries) != (write.status, write.retries)))


def explained(row: Row, page: Page, settings: Settings) -> bool:
    """`hermes/claim/people.py:explained`: may one of our own writes have put this there?"""
    every = settings.rules.explained_by_all_values
    return any(e.status is page.status and (not every or _says_all(e, page)) for e in row.log)


def _says_all(entry: Logged, page: Page) -> bool:
    return entry.retries in (None, page.retries) and entry.claimed in (None, page.claimed)
