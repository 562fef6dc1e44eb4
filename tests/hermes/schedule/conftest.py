"""Polls as configured, a database of their own, and a runner that does what a test says."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

import store.tables  # noqa: F401  (registers them)
from hermes.config import PollConfig
from hermes.config.poll_file import BoardSource, Claim, Misfire, Schedule, Stop
from hermes.config.versions import definition_version
from hermes.schedule.cadence import Cadence
from hermes.schedule.cron import Cron
from hermes.schedule.loop import Scheduler
from hermes.schedule.occurrence import OccurrenceOutcome
from hermes.telemetry.metrics import Metrics
from hermes.testing.clock import FakeClock

NOTHING = OccurrenceOutcome()


def make_poll(name: str = "tasks", every: str | None = "10m", *, cron: str | None = None, **changes) -> PollConfig:
    schedule = Schedule.model_validate(
        {
            "every": every if cron is None else None,
            "cron": cron,
            "jitter": changes.pop("jitter", "0s"),
            "misfire": changes.pop("misfire", Misfire()),
        }
    )
    definition = {"poll": name, "schedule": str(schedule), **{key: str(value) for key, value in changes.items()}}
    values = {
        "owner": "default",
        "workspace": "default",
        "priority": 5,
        "enabled": True,
        "stop": Stop(max_consecutive_failures=changes.pop("max_failures", 3)),
        "definition_version": definition_version(definition),
        "condition_version": "c1",
        **changes,
    }
    return PollConfig(
        id=name,
        source=BoardSource(type="board", board="team"),
        schedule=schedule,
        cadence=Cadence(
            name, schedule.every, Cron.parse(cron) if cron else None, ZoneInfo("Europe/Berlin"), schedule.jitter
        ),
        filter=None,
        action=BoardSource(type="board", board="unused"),
        claim=Claim(),
        file=f"config/polls/{name}.yaml",
        definition=definition,
        **values,
    )


class Runner:
    """Answers with what it was given, in order, then with nothing."""

    def __init__(self) -> None:
        self.answers: list[OccurrenceOutcome | Exception] = []
        self.always: OccurrenceOutcome | Exception = NOTHING
        self.calls = []

    def __call__(self, poll, due_at, lease):
        self.calls.append((poll.id, due_at, lease))
        answer = self.answers.pop(0) if self.answers else self.always
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def database(databases, clock):
    return databases.open(clock)


@pytest.fixture
def runner():
    return Runner()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def scheduler(database, runner, metrics):
    return Scheduler(database, "boot-1", runner, metrics=metrics)


@pytest.fixture
def look(database):
    """The row of a poll."""

    def get(name: str = "tasks"):
        with database.read() as unit:
            return unit.polls.get(name)

    return get


@pytest.fixture
def occurrences(database):
    def get(name: str = "tasks"):
        with database.read() as unit:
            return unit.polls.occurrences(name)

    return get


@pytest.fixture
def pass_time(clock, scheduler, database):
    """Lets time pass from one start to the next; returns how many occurrences were started."""

    def run(span: timedelta) -> int:
        started, end = scheduler.tick(), clock.now() + span
        while clock.now() < end:
            with database.read() as unit:
                starts = [row.next_start_at for row in unit.polls.all() if row.status == "active"]
            following = min((at for at in starts if at > clock.now()), default=end)
            clock.advance(min(end, following) - clock.now())
            started += scheduler.tick()
        return started

    return run


@pytest.fixture
def poll():
    return make_poll
