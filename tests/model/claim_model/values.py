"""What a world is made of: one card on a board, databases that work it, and the threads of their processes.

Everything is a tuple, so that a world can be looked up in a table of those already seen. Times are whole ticks: what is
left of a wait, or how long ago something was, counted no further than it matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

NAMES = 8
"""Run ids of one installation that may be in sight at once. They are only compared, so free ones are used again."""
NOBODY = -1


class Status(StrEnum):
    """`hermes.model.card:CardStatus`."""

    todo = "Todo"
    progress = "In progress"
    complete = "Complete"
    failed = "Failed"
    attention = "Needs attention"
    cancelled = "Cancelled"


class State(StrEnum):
    """`hermes.model.claim:ClaimState`."""

    idle = "idle"
    candidate = "candidate"
    claiming = "claiming"
    settling = "settling"
    claimed = "claimed"
    backoff = "backoff"
    done = "done"
    gone = "gone"


class RunState(StrEnum):
    """`hermes.model.run:RunState`; a sleeping run is ready here, for nothing in the protocol tells them apart."""

    none = "none"
    ready = "ready"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    parked = "parked"
    cancelled = "cancelled"


FINAL = (RunState.succeeded, RunState.failed, RunState.parked, RunState.cancelled)


class At(StrEnum):
    """Where a thread is: between any two of these it may be killed, or stand still for any time."""

    idle = "idle"
    asked = "a query was answered"
    held = "holds the card's row"
    read = "has read the page"
    logged = "has logged a write"
    sent = "has sent it"
    unanswered = "got no answer"
    answered = "got its answer"
    driving = "drives the run"
    acting = "is about to act"
    acted = "has acted"


class Job(StrEnum):
    """What a thread holds a row for; the functions of `hermes/claim`."""

    none = "nothing"
    claim = "claim"
    settle = "settle"
    recover = "recover"
    reclaim = "reclaim"
    retry = "show_retry"
    finish = "finish"
    review = "review"
    observe = "keep: look"
    extend = "keep: extend"
    reassert = "keep: reassert"
    abandon = "show_abandoned"


class Page(NamedTuple):
    status: Status = Status.todo
    run: int = 0
    """RunId: `installation * NAMES + n`; 0 is empty."""
    claimed: bool = False
    """ClaimedBy names the installation that RunId is of; False: the column is empty."""
    expires: int = 0
    """Ticks until ClaimExpiresAt; 0: over or empty."""
    after: bool = False
    """ClaimedAt is later than the end of the other installation's claim."""
    retries: int = 0
    text: int = 0
    trash: bool = False
    left: Status = Status.todo
    """The status that a write of ours put there last. Nobody in the protocol sees this."""
    by_hand: bool = False
    """A person put the status there, and it is not where we had left it. Nobody in the protocol sees this."""
    moves: int = 0
    """How often people touched the card. Nobody in the protocol sees this."""
    since_moved: int = 0
    """Ticks since a person put the status there, where that is judged. Nobody in the protocol sees this."""
    asking: int = 0
    """How often people have moved it to Todo. With the text that a run goes by, this is what it answers: an asking.
    Nobody in the protocol sees this."""


class Write(NamedTuple):
    """A PATCH; None leaves a column as it is."""

    job: Job
    status: Status | None = None
    run: int | None = None
    claimed: bool | None = None
    expires: int | None = None
    retries: int | None = None
    after: bool = False
    saw: int = 0
    """`Page.moves` of the page it was decided on."""


class Request(NamedTuple):
    age: int
    sender: int
    awaited: bool
    """False: its client gave up or died. It may still land (a ghost) until it is too old, or be lost."""
    write: Write


class Logged(NamedTuple):
    """A row of the board log whose write was not answered."""

    age: int
    status: Status
    retries: int | None
    claimed: bool | None


class Row(NamedTuple):
    """The card in a database (`store/claims.py`)."""

    state: State = State.idle
    generation: int = 0
    run: int = 0
    holder: int = NOBODY
    hold: int = 0
    """Ticks until `held_until`."""
    unknown: int = 0
    """Ticks until `unknown_until`."""
    due: int = 0
    """Ticks until `due_at`."""
    hint: int = 0
    """Ticks for which the newest query's word is good."""
    shared: bool = False
    """Claimed by the shared protocol, recorded before anything was sent."""
    resume: bool = False
    """A parked run that a person wants to go on."""
    verify: bool = False
    expires: int = 0
    retries: int = 0
    text: int = 0
    log: tuple[Logged, ...] = ()
    started: int = NOBODY
    """The last asking that a run was started for. Nobody in the protocol sees this."""


class Run(NamedTuple):
    """The run of `Row.run` in the same database."""

    state: RunState = RunState.none
    held: bool = False
    stop: bool = False
    intent: bool = False
    result: bool = False
    driver: int = NOBODY
    asking: int = 0
    """Which asking it answers. Nobody in the protocol sees this."""


class Database(NamedTuple):
    row: Row = Row()
    run: Run = Run()
    stopped: bool = False
    """Claims nothing on this board: another installation was seen."""
    saw_stranger: bool = False
    """A query has shown a claim of another installation. Nobody in the protocol sees this."""


class Thread(NamedTuple):
    at: At = At.idle
    job: Job = Job.none
    stale: bool = False
    """Its fence has been passed."""
    since_get: int = 0
    since_log: int = 0
    page: Page | None = None
    """The last page it was shown: by a query, a GET, or the answer of a PATCH."""
    write: Write | None = None
    settled: bool = False
    """The row was settled since the query in hand was asked."""
    asking: int = 0
    """Of the run it is about to act for."""


class Budget(NamedTuple):
    """How many faults and human moves are left. Each is possible at every moment."""

    kills: int = 0
    timeouts: int = 0
    suspensions: int = 0
    """A worker that stands still until its run's lease is over."""
    failures: int = 0
    """Deliveries that fail after their effect."""
    people: int = 0
    edits: int = 0
    cancels: int = 0
    """`runs cancel`."""
    extends: int = 0
    restores: int = 0
    """A database that is put back to before it knew the card."""


class World(NamedTuple):
    page: Page
    past: tuple[tuple[int, Page], ...]
    """Earlier pages that a query may still show, with their age."""
    requests: tuple[Request, ...]
    databases: tuple[Database, ...]
    threads: tuple[Thread, ...]
    budget: Budget
    effects: tuple[int, ...] = (0,)
    """Effects on the outside, by asking."""

    def with_thread(self, index: int, thread: Thread) -> World:
        return self._replace(threads=(*self.threads[:index], thread, *self.threads[index + 1 :]))

    def with_database(self, index: int, database: Database) -> World:
        return self._replace(databases=(*self.databases[:index], database, *self.databases[index + 1 :]))

    def spend(self, **what: int) -> World:
        return self._replace(budget=self.budget._replace(**{k: getattr(self.budget, k) - n for k, n in what.items()}))


class Step(NamedTuple):
    """One thing that can happen next."""

    what: str
    world: World
    fault: bool = False
    """Faults, people and lost writes: nothing that is hoped for needs them."""
    broke: str | None = None
    """The property that it violates."""


Steps = Iterator[Step]


def installation(run: int) -> int:
    return run // NAMES


def fresh_run(world: World, database: int) -> int:
    """An id that stands nowhere: as good as one that was never used."""
    seen = {world.page.run} | {page.run for _, page in world.past} | {db.row.run for db in world.databases}
    seen |= {request.write.run for request in world.requests if request.write.run}
    for thread in world.threads:
        seen |= {thread.page.run if thread.page else 0, thread.write.run or 0 if thread.write else 0}
    first = database * NAMES + 1
    return next(name for name in range(first, first + NAMES - 1) if name not in seen)
