"""The oracle: recording services of three classes, which know nothing of Hermes, and the functions that use them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from simulation.schedule import Schedule

from hermes.durable import (
    Event,
    Found,
    Refused,
    command,
    current_step,
    delay,
    function,
    wait_for_event,
    when_any,
)
from hermes.errors import Retryable, UnknownOutcome, WaitTimedOut
from hermes.model.claim import CardInput

PATIENCE = 10.0
APPROVED = Event("APPROVED", str)


@dataclass(frozen=True)
class Change:
    """One change that a service has made."""

    kind: str
    key: str
    run_id: str
    run_key: str
    installation: str
    purpose: str
    """Card and place in its work, or what the errand is about."""
    at: float


@dataclass(frozen=True)
class Begun:
    """The body of a command has begun."""

    run_id: str
    run_key: str
    seq: int
    installation: str
    about: str
    at: float


class Services:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.trouble = 0.0
        """Share of requests that do not go well."""
        self.changes: list[Change] = []
        self.begun: list[Begun] = []
        self.again: list[str] = []
        """Steps whose body began although their result stood in the database."""
        self.under_way = 0
        """Requests that have left and not arrived."""
        self.at_work = 0
        """Bodies that have begun and are not over, also of processes that stand still."""
        self.taken: dict[tuple[str, str], set[str]] = defaultdict(set)
        """By installation and event, the runs that it was given to."""
        self.stumbles: Counter[tuple[str, str]] = Counter()
        self.recorded: Callable[[str, str, int], bool] = lambda _installation, _run_id, _seq: False

    def begin(self, about: str) -> str:
        """A body begins; returns the installation it begins in."""
        info, actor = current_step(), self.schedule.current
        installation = actor.place.name.partition("/")[0] if actor and actor.place else "nobody"
        self.begun.append(Begun(info.run_id, info.run_key, info.seq, installation, about, self.schedule.now))
        if self.recorded(installation, info.run_id, info.seq):
            self.again.append(f"step {info.seq} of {info.run_key}")
        return installation

    def send(self, kind: str, purpose: str) -> str:
        """The body of a command: one request, as the wire and the service treat it."""
        self.at_work += 1
        try:
            return self._send(kind, purpose)
        finally:
            self.at_work -= 1

    def _send(self, kind: str, purpose: str) -> str:
        info = current_step()
        installation = self.begin(purpose.partition("#")[0])
        if kind != "checkable":  # one that stands still here sends after another has asked: not promised
            self.schedule.pause(0.0, f"{kind}: begins")
        random = self.schedule.random
        if random.random() < self.trouble / 3:
            raise Retryable("refused: try again")
        key = info.idempotency_key
        fate = "lost" if random.random() < self.trouble / 3 else "silent" if random.random() < self.trouble else "well"
        there, back = random.uniform(0.01, 0.5), random.uniform(0.01, 0.5)
        if random.random() < self.trouble:
            back += random.uniform(0.0, 2 * PATIENCE)
        change = Change(kind, key, info.run_id, info.run_key, installation, purpose, self.schedule.now)
        if fate != "lost":
            self.under_way += 1
            self.schedule.after(there, lambda: self._handle(change))
        self.schedule.pause(there, f"{kind} request for {purpose[-12:]}")
        if fate != "well":
            self.schedule.pause(random.uniform(0.1, PATIENCE), f"{kind}: no answer")
            raise UnknownOutcome("no answer")
        self.schedule.pause(back, f"{kind}: answered")
        return f"{kind} {purpose}"

    def _handle(self, change: Change) -> None:
        self.under_way -= 1
        self.schedule.note("service", f"{change.kind} {change.purpose[-12:]}")
        if change.kind == "keyed" and any(made.key == change.key for made in self.changes if made.kind == "keyed"):
            return
        self.changes.append(change)

    def find(self, key: str) -> bool:
        self.schedule.pause(self.schedule.random.uniform(0.02, 1.0), "checkable: asked")
        if self.schedule.random.random() < self.trouble / 2:
            raise RuntimeError("cannot be asked just now")
        return any(change.key == key for change in self.changes if change.kind == "checkable")

    def made(self, run_id: str, purpose: str) -> bool:
        return any(change.run_id == run_id and change.purpose == purpose for change in self.changes)


services: Services
"""Of the world that runs now: commands are found by name and take nothing but JSON."""


def use(made: Services) -> None:
    global services
    services = made


@command(name="sim.keyed", effect="keyed", timeout=timedelta(seconds=PATIENCE))
def keyed(purpose: str) -> str:
    return services.send("keyed", purpose)


def _look_up(key: str, purpose: str) -> Found[str] | None:
    return Found(f"checkable {purpose}") if services.find(key) else None


@command(name="sim.checkable", effect="checkable", check=_look_up, timeout=timedelta(seconds=PATIENCE))
def checkable(purpose: str) -> str:
    return services.send("checkable", purpose)


@command(name="sim.naive", effect="naive", timeout=timedelta(seconds=PATIENCE))
def naive(purpose: str) -> str:
    return services.send("naive", purpose)


@command(name="sim.stumble", effect="none", retries=0)
def stumble(purpose: str, times: int) -> None:
    services.begin(purpose.partition("#")[0])
    services.stumbles[current_step().run_id, purpose] += 1
    if services.stumbles[current_step().run_id, purpose] <= times:
        raise RuntimeError("stumbled")


@command(name="sim.take", effect="none")
def take(purpose: str, event: str) -> None:
    installation = services.begin(purpose.partition("#")[0])
    services.taken[installation, event].add(current_step().run_id)


@function(name="sim.work")
async def work(card: CardInput) -> str | Refused:
    """What a card asks for stands in its description, a word a step."""
    for place, word in enumerate(card.description.split(), 1):
        purpose = f"{card.id}#{place}"
        kind, _, number = word.partition(":")
        if kind == "keyed":
            await keyed(purpose)
        elif kind == "checkable":
            await checkable(purpose)
        elif kind == "naive":
            await naive(purpose)
        elif kind == "delay":
            await delay(timedelta(seconds=int(number)))
        elif kind == "event":
            try:
                await take(purpose, await wait_for_event(APPROVED, purpose, timeout=timedelta(seconds=60)))
            except WaitTimedOut:
                continue
        elif kind == "race":
            news, deadline = wait_for_event(APPROVED, purpose, forever=True), delay(timedelta(seconds=30))
            if await when_any(news, deadline) is news:
                await take(purpose, await news)
        elif kind == "again":
            try:
                await stumble(purpose, int(number))
            except RuntimeError as error:
                raise RuntimeError(f"step {place} {error}") from error
        elif kind == "refuse":
            return Refused("this card is refused")
    return f"did {card.title}"


@function(name="sim.errand")
async def errand(about: str) -> None:
    """What somebody starts under a key of their own, more than once when they hear no answer."""
    await keyed(f"{about}#1")
    await checkable(f"{about}#2")
