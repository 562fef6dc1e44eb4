"""One write to the card on its way: sent or not, answered or not (`hermes/claim/writing.py`, `desk.py:_postpone`)."""

from __future__ import annotations

from claim_model import board, holding
from claim_model.settings import Mode, Settings
from claim_model.values import At, Job, Status, Step, Steps, Thread, World


def among_rivals(world: World, index: int, settings: Settings) -> bool:
    """Whether this claim is made by the shared protocol."""
    thread, mine = world.threads[index], settings.threads[index].database
    if thread.job is Job.claim:
        return world.databases[mine].row.shared
    return thread.job is Job.reclaim and settings.modes[mine] is not Mode.exclusive and settings.rules.reclaim_settles


def steps(world: World, index: int, settings: Settings) -> Steps:
    thread = world.threads[index]
    if thread.at is At.logged:
        yield _send(world, index, thread, settings)
    elif thread.at is At.sent and world.budget.timeouts:
        waiting = board.forsake(world.spend(timeouts=1), index)
        yield Step(f"{index} gets no answer", waiting.with_thread(index, thread._replace(at=At.unanswered)), fault=True)
    elif thread.at is At.unanswered:
        yield _read_back(world, index, thread, settings)


def _send(world: World, index: int, thread: Thread, settings: Settings) -> Step:
    """`sources/notion/client.py:_send`: a write whose time is over never leaves (`send_by`)."""
    rules = settings.rules
    too_late = rules.send_by and thread.since_log > settings.wait_out
    too_slow = rules.guard and among_rivals(world, index, settings) and thread.since_get > settings.guard
    if too_late or too_slow:
        row = world.databases[settings.threads[index].database].row
        assert thread.write is not None
        return holding.let_go(
            world, index, "does not send it any more", settings, log=holding.answered(row, thread.write).log
        )
    return Step(f"{index} sends {thread.job}", board.send(world, index, thread))


def _read_back(world: World, index: int, thread: Thread, settings: Settings) -> Step:
    """`writing.py:write_card`: a claim's RunId stands there by this write alone, so a GET that shows it is its answer.
    Else the outcome is unknown, and nobody writes the page until it can no longer land."""
    row, page = world.databases[settings.threads[index].database].row, world.page
    shows_it = page.run == row.run and page.status is Status.progress and page.claimed and not page.trash
    if thread.job in (Job.claim, Job.reclaim) and shows_it:
        found = world.with_thread(index, thread._replace(at=At.answered, page=page))
        return Step(f"{index} reads the page: its claim has landed", found)
    wait = settings.wait_out if settings.rules.wait_out else 0
    return holding.let_go(world, index, "records an unknown outcome", settings, unknown=wait, verify=row.verify)
