"""Driving a run: its lease, one step with an effect, its ending (`hermes/durable/ENGINE.md`).

The lease has no length here: a run may be taken over as soon as its worker is dead, or stands still."""

from __future__ import annotations

from claim_model import retry
from claim_model.settings import Settings
from claim_model.values import FINAL, NOBODY, At, Run, RunState, Step, Steps, Thread, World


def steps(world: World, index: int, settings: Settings) -> Steps:
    thread = world.threads[index]
    if not settings.threads[index].worker:
        return
    run = world.databases[settings.threads[index].database].run
    former = thread.at in (At.driving, At.acted) and run.driver != index and not thread.stale
    if former:  # the row has gone on to another run (not by the rules)
        yield Step(f"{index} ends its former run", world.with_thread(index, Thread()))
        return
    if thread.at is At.idle and run.state is RunState.ready and not run.held:
        leased = run._replace(state=RunState.running, driver=index)
        yield _write(world, index, "leases the run", settings, leased, Thread(at=At.driving))
    elif thread.at is At.driving:
        yield from _drive(world, index, run, settings)
    elif thread.at is At.acting:
        yield _act(world, index)
    elif thread.at is At.acted:
        done = run._replace(result=True)
        yield _write(world, index, "records the result", settings, done, Thread(at=At.driving))


def take_over(world: World, settings: Settings) -> Steps:
    """`store/leases.py:rescue`: the lease is over; whoever drove the run is stale."""
    for index, database in enumerate(world.databases):
        run = database.run
        if run.state is not RunState.running:
            continue
        alive = run.driver != NOBODY
        if alive and not world.budget.suspensions:
            continue
        after = world.with_database(index, database._replace(run=run._replace(state=RunState.ready, driver=NOBODY)))
        if alive:
            sleeper = world.threads[run.driver]
            after = after.spend(suspensions=1).with_thread(run.driver, sleeper._replace(stale=True))
        yield Step(f"the run of database {index} is taken over", after, fault=alive)


def _write(world: World, index: int, what: str, settings: Settings, run: Run, thread: Thread) -> Step:
    """Every statement of a worker is conditional on owner and fence: zero rows means LeaseLost."""
    stale, mine = world.threads[index].stale, settings.threads[index].database
    if stale and settings.rules.run_fence:
        return Step(f"{index} has lost the run and stops", world.with_thread(index, Thread()))
    after = world.with_database(mine, world.databases[mine]._replace(run=run))
    return Step(f"{index} {what}", after.with_thread(index, thread), broke="FENCE" if stale else None)


def _drive(world: World, index: int, run: Run, settings: Settings) -> Steps:
    rules, mine = settings.rules, settings.threads[index].database
    if run.stop:
        yield _write(world, index, "stops the run", settings, _over(run, RunState.cancelled), Thread())
    elif run.result:
        yield _write(world, index, "ends the run", settings, _over(run, RunState.succeeded), Thread())
        if world.budget.failures:
            held = retry.held_after_failure(settings.modes[mine], settings)
            again = run._replace(state=RunState.ready, driver=NOBODY, held=held)
            failing = world.spend(failures=1)
            yield _write(failing, index, "fails after its effect", settings, again, Thread())._replace(fault=True)
    elif run.intent and rules.intent_is_final:
        yield _write(world, index, "parks: it may have acted", settings, _over(run, RunState.parked), Thread())
    else:
        intended = run._replace(intent=True) if rules.intent else run
        acting = Thread(at=At.acting, asking=run.asking)
        step = _write(world, index, "records its intent", settings, intended, acting)
        rival = any(_about_to_act(world, other, mine, run, settings) for other in range(len(world.threads)))
        yield step._replace(broke="ME") if rival and step.broke is None and not world.threads[index].stale else step


def _about_to_act(world: World, other: int, mine: int, run: Run, settings: Settings) -> bool:
    """For the same asking; or, in one installation, for any: it knows of both runs. A worker that was passed while it
    stood still at this very point is the window that no database closes (ENGINE.md)."""
    thread = world.threads[other]
    if thread.at is not At.acting:
        return False
    return thread.asking == run.asking or (settings.threads[other].database == mine and not thread.stale)


def _over(run: Run, state: RunState) -> Run:
    assert state in FINAL
    return run._replace(state=state, stop=False, held=False, driver=NOBODY)


def _act(world: World, index: int) -> Step:
    """The effect on the outside, for the asking that its run answers; the receiver does not dedupe."""
    thread = world.threads[index]
    counts = list(world.effects) + [0] * (thread.asking + 1 - len(world.effects))
    counts[thread.asking] = min(2, counts[thread.asking] + 1)
    after = world._replace(effects=tuple(counts)).with_thread(index, thread._replace(at=At.acted))
    twice = "EFF" if counts[thread.asking] > 1 else None
    return Step(f"{index} *** ACTS *** for asking {thread.asking}", after, broke=twice)
