"""The loop of the claim protocol: which job a row needs, and the steps of a job (`hermes/claim/desk.py`).

A job holds the row, reads the page where it must, logs a write where it must, sends it, and lets the row go."""

from __future__ import annotations

from collections.abc import Callable

from claim_model import abandoned, claiming, finishing, holding, retry, upkeep, writing
from claim_model.settings import Settings
from claim_model.values import FINAL, At, Database, Job, RunState, State, Step, Steps, Thread, World

Decision = Callable[[World, int, Settings], Step]

AFTER_GET: dict[Job, Decision] = {
    Job.claim: claiming.go,
    Job.settle: claiming.settle,
    Job.recover: claiming.recover,
    Job.reclaim: retry.reclaim,
    Job.retry: retry.show_retry,
    Job.finish: finishing.finish,
    Job.review: finishing.review,
    Job.observe: upkeep.observe,
    Job.abandon: abandoned.look,
}
AFTER_ANSWER: dict[Job, Decision] = {
    Job.claim: claiming.acknowledged,
    Job.reclaim: claiming.acknowledged,
    Job.recover: claiming.shown_unfinished,
    Job.retry: retry.shown,
    Job.finish: finishing.ended,
    Job.extend: upkeep.observe,
    Job.reassert: upkeep.reasserted,
    Job.abandon: abandoned.shown,
}


def steps(world: World, index: int, settings: Settings) -> Steps:
    thread = world.threads[index]
    if thread.at is At.idle and settings.threads[index].desk:
        yield from claiming.reserve(world, index, settings)
        yield from _look(world, index, settings)
    elif thread.at is At.held:
        if thread.job is Job.extend:
            yield upkeep.log_extension(world, index, settings)
        elif thread.job is Job.claim and not claiming.needs_get(world, index, settings):
            yield claiming.go(world, index, settings)
        else:
            read = thread._replace(at=At.read, page=world.page, since_get=0)
            yield Step(
                f"{index} reads the page: {world.page.status}, run {world.page.run}", world.with_thread(index, read)
            )
    elif thread.at in (At.read, At.answered) and thread.stale and settings.rules.fence:
        yield Step(f"{index} is stale and stops", world.with_thread(index, Thread()))
    elif thread.at is At.read:
        yield AFTER_GET[thread.job](world, index, settings)
    elif thread.at is At.answered:
        yield _after_answer(world, index, settings)
    else:
        yield from writing.steps(world, index, settings)


def _after_answer(world: World, index: int, settings: Settings) -> Step:
    """A page in the trash has refused the write (`errors.py:Gone`)."""
    thread = world.threads[index]
    assert thread.page is not None
    if thread.page.trash and thread.job not in (Job.extend,):
        return gone(world, index, settings)
    return AFTER_ANSWER[thread.job](world, index, settings)


def gone(world: World, index: int, settings: Settings) -> Step:
    """`desk.py:_gone`: the run stops; a restored page in Todo is asked for again."""
    mine = settings.threads[index].database
    database = world.databases[mine]
    live = database.run.state in (RunState.ready, RunState.running)
    row = holding.settled(database.row, settings)
    step = holding.let_go(
        world,
        index,
        "is told that the card is in the trash",
        settings,
        its_run=claiming.stopped(database.run),
        state=State.claimed if live else State.gone,
        log=row.log,
    )
    return step._replace(world=holding.settle_queries(step.world, mine, settings))


def _look(world: World, index: int, settings: Settings) -> Steps:
    """`desk.py:look_once`, `_look`: hold the row and begin what its state asks for."""
    database = world.databases[settings.threads[index].database]
    job = _job(world, database, settings)
    if job is Job.none or database.row.due or not holding.may_hold(database.row):
        return
    if job is Job.retry and database.stopped:  # `desk.py:_stopped`: what stands in Todo a rival may start too
        run = database.run._replace(held=False)
        after = world.with_database(settings.threads[index].database, database._replace(run=run))
        yield Step(f"{index} lets the run go on under its claim", after)
        return
    after = holding.hold(world, index, job, database.row, settings)
    yield Step(f"{index} looks at the card: {job}", after)


def _job(world: World, database: Database, settings: Settings) -> Job:
    row, run = database.row, database.run
    match row.state:
        case State.claiming:
            return Job.recover
        case State.settling:
            return Job.settle
        case State.backoff:
            return Job.finish if run.state in FINAL else Job.reclaim
        case State.claimed:
            return _job_of_claimed(world, database, settings)
        case State.done | State.gone if row.verify:
            return Job.review
        case _:
            return Job.none


def _job_of_claimed(world: World, database: Database, settings: Settings) -> Job:
    """`desk.py:_look_at_claimed`."""
    if database.run.state in FINAL:
        return Job.finish
    if database.run.held:
        return Job.retry
    if database.row.verify:
        return Job.observe
    return Job.extend if upkeep.must_extend(world, database.row, settings) else Job.none
