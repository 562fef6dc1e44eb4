"""The composition root: the only file that names concrete sources, evaluators and stores."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from pydantic import BaseModel

from evaluators.filter import CelCompiler
from hermes.actions import ACTIONS
from hermes.actions import notify as notify_action
from hermes.claim import ClaimingPoll, Desk
from hermes.clock import Clock, SystemClock
from hermes.config import (
    ConfigProblems,
    Configuration,
    ConfigWatcher,
    Models,
    PollConfig,
    Problem,
    Reading,
    Report,
    load,
    read,
)
from hermes.durable.registry import load_functions
from hermes.durable.settings import EngineSettings
from hermes.durable.worker import Worker
from hermes.errors import ConfigError, SourceError, StoreError
from hermes.limits import Breaker, DatabaseLimiter
from hermes.model.card import Card
from hermes.model.installation import Identity
from hermes.model.json import JSON
from hermes.poll.board_poll import BoardPoll
from hermes.ports.actions import CardAction
from hermes.ports.polls import PollStatus
from hermes.retention import Ages, Nightly
from hermes.schedule.loop import Scheduler
from hermes.telemetry.logs import configure_logs
from hermes.telemetry.metrics import Metrics
from hermes.telemetry.redaction import Redactor
from sources.board.config import LocalBoardConnection
from sources.board.server import is_served, running, serve
from sources.notion import BoardSettings, NotionConnection, NotionTaskBoard, open_board
from sources.notion.config import TimesOverrides
from sources.notion.init import Applied, BoardPlan, NewBoard, apply_plan, create_board, plan_board
from store.database import Database
from store.migrate import Version, refuse_damaged, statements, upgrade, version

log = structlog.get_logger("hermes.app")

API_THREADS = 16
"""Requests of the API that ask the database at once."""


def models() -> Models:
    """What the configuration may name."""
    return Models(
        connections={"notion": NotionConnection, "local": LocalBoardConnection},
        boards={"notion": BoardSettings, "local": BoardSettings},
        actions={name: action.model for name, action in ACTIONS.items()},
        filters=CelCompiler(),
        checks=(_check_actions,),
    )


def read_configuration(folder: Path) -> Reading:
    """For `validate`: everything that is wrong, and what is right."""
    return read(folder, models())


def _check_actions(configuration: Configuration, report: Report) -> None:
    try:
        load_functions(configuration.functions, configuration.folder)
    except ConfigError as error:
        report.hermes(("functions",), str(error))
        return
    for poll in configuration.polls.values():
        for action in ACTIONS.values():
            if isinstance(poll.action, action.model):
                found = action.problem(poll.action, configuration)
                if found is not None:
                    report.poll(poll.id, ("action", found[0]), found[1])


class App:
    """One process's view of an installation. Cheap to make; nothing runs until it is asked for."""

    def __init__(self, configuration: Configuration, *, clock: Clock | None = None, boot_id: str | None = None) -> None:
        self.configuration = configuration
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.redactor = Redactor(configuration.secrets)
        # As many threads as may want the database at once: slots, polls, the desk, background loops.
        connections = configuration.workers.slots + 8 + (API_THREADS if configuration.api is not None else 0)
        self.store = Database(configuration.database_url, self.clock, connections=connections)
        self._boot_id = boot_id or secrets.token_hex(4)
        self._identity: Identity | None = None
        self._boards: dict[str, NotionTaskBoard] = {}
        self._breakers: dict[str, Breaker] = {}
        """By credential: what one board has learnt of an endpoint holds for all."""
        self._reached: dict[str, NotionTaskBoard] = {}
        self._mutex = threading.Lock()
        notify_action.connect({name: url.get_secret_value() for name, url in configuration.channels.items()})

    @classmethod
    def load(cls, folder: Path, *, clock: Clock | None = None) -> App:
        """Raises ConfigProblems with everything that is wrong."""
        return cls(load(folder, models()), clock=clock)

    @classmethod
    def look(cls, folder: Path) -> tuple[App, tuple[Problem, ...]]:
        """For what only looks, or changes a row: the good part of the configuration and what is wrong with the rest.
        No function of the operator is imported. Raises ConfigProblems when hermes.yaml cannot be used."""
        reading = read(folder, replace(models(), checks=()))
        if reading.configuration is None:
            raise ConfigProblems(reading.problems)
        return cls(reading.configuration), reading.problems

    def configure_logs(self, *, level: str | None = None) -> None:
        configure_logs(self.redactor, level=level or self.configuration.log.level, format=self.configuration.log.format)

    def upgrade(self) -> list[str]:
        """Bring the database to this version's tables; returns the migrations applied. Raises StoreError."""
        return upgrade(self.store)

    def upgrade_statements(self) -> list[str]:
        """What `upgrade` would say to the database; changes nothing."""
        return statements(self.store)

    def database_version(self) -> Version:
        return version(self.store)

    def check_integrity(self) -> None:
        """Raises StoreError when the database is damaged."""
        refuse_damaged(self.store)

    def database_exists(self) -> bool:
        """Whether it has been made, be it by another version. Raises StoreError when it is damaged."""
        return self.store.exists() and self.database_version().at is not None

    def require_current_database(self) -> None:
        """Raises StoreError when it is not of this version."""
        pending = self.database_version().pending
        if pending:
            raise StoreError(
                f"the database lacks {len(pending)} migration(s) ({', '.join(pending)}): run `hermes-poll db upgrade`, "
                "or start `hermes-poll up`, which does it"
            )

    def database_disk(self) -> tuple[Path, str | None] | None:
        """File and type of file system of an embedded database; None for a server's."""
        return self.store.disk()

    def shown_database(self) -> str:
        return self.store.url.render_as_string(hide_password=True)

    def close(self) -> None:
        for board in self._boards.values():
            board.close()
        self.store.close()

    # -- who we are

    @property
    def identity(self) -> Identity:
        if self._identity is None:
            with self.store.write() as uow:
                self._identity = Identity(uow.installation.name(), self._boot_id)
        return self._identity

    # -- boards

    def local_connections(self) -> dict[str, LocalBoardConnection]:
        """Boards that this machine serves itself."""
        found = self.configuration.connections.items()
        return {name: section for name, section in found if isinstance(section, LocalBoardConnection)}

    def notion_connection(self, name: str) -> NotionConnection:
        section: BaseModel = self.configuration.connections[name]
        if isinstance(section, LocalBoardConnection):
            times = TimesOverrides(**section.times)
            return NotionConnection(base_url=section.url, timeout_seconds=section.timeout_seconds, times=times)
        assert isinstance(section, NotionConnection)  # noqa: S101 -- the loader read it by that model
        return section

    def board_settings(self, name: str) -> BoardSettings:
        settings = self.configuration.boards[name]
        assert isinstance(settings, BoardSettings)  # noqa: S101 -- the loader read it by that model
        return settings

    def board(self, name: str) -> NotionTaskBoard:
        """The board of that name. Makes no request by itself, but for a local board that is not there yet: it is made.
        Raises SourceError."""
        with self._mutex:
            if name not in self._boards:
                self._boards[name] = self._open(name)
            return self._boards[name]

    def _open(self, name: str) -> NotionTaskBoard:
        settings = self.board_settings(name)
        connection = self.notion_connection(settings.connection)
        limiter = DatabaseLimiter(connection.credential_key, self.store, self.clock, connection.budget)
        breaker = self._breakers.setdefault(connection.credential_key, Breaker(self.clock))
        board = open_board(name, settings, connection, limiter, clock=self.clock, breaker=breaker)
        if isinstance(self.configuration.connections[settings.connection], LocalBoardConnection):
            # A local board is named by its title: there is no page to copy an id from.
            made = create_board(board.client, settings, title=settings.board)
            settings = settings.model_copy(update={"board": made.located.data_source_id})
            board.close()
            board = open_board(name, settings, connection, limiter, clock=self.clock, breaker=breaker)
        return board

    def reach(self, name: str) -> NotionTaskBoard:
        """The board, located. Raises SourceError while it cannot be reached."""
        board = self.board(name)
        key = board.key
        with self._mutex:
            known = key in self._reached
            self._reached[key] = board
        if not known:
            self._name_board(key, name)
        return board

    def _name_board(self, key: str, name: str) -> None:
        """So that pages can call it as hermes.yaml does while it is away."""
        with self.store.read() as uow:
            named = uow.claims.board(key).name == name
        if not named:
            with self.store.write() as uow:
                uow.claims.note_board(key, name=name)

    def reached_boards(self) -> Mapping[str, NotionTaskBoard]:
        with self._mutex:
            return dict(self._reached)

    def board_page(self, name: str) -> str:
        """Where people see the board, which was reached."""
        board = self.reach(name)
        connection = self.configuration.connections[board.connection_name]
        if isinstance(connection, LocalBoardConnection):
            return f"{connection.url}/boards/{board.key}"
        return board.located.url or board.key

    def reach_missing(self) -> None:
        """Try those that could not be reached yet; a board that stays away is the failing of its polls."""
        reached = {board.name for board in self.reached_boards().values()}
        for name in self.configuration.boards.keys() - reached:
            try:
                self.reach(name)
            except SourceError as error:
                log.warning("the board cannot be reached", board=name, error=str(error))

    # -- parts of a process

    def claiming_polls(self) -> Mapping[str, ClaimingPoll]:
        """Polls of boards that were reached, in order of priority; those that are not active only finish."""
        with self.store.read() as uow:
            active = {poll.poll_id for poll in uow.polls.all() if poll.status is PollStatus.active}
        keys = {board.name: key for key, board in self.reached_boards().items()}
        wanted = [poll for poll in self.configuration.polls.values() if poll.board is not None and poll.board in keys]
        return {
            poll.id: ClaimingPoll(
                policy=poll.claim_policy(shared=self.board_settings(poll.board or "").mode == "shared"),
                board=keys[poll.board or ""],
                action=_action_of(poll),
                wants=_filter_of(poll),
                active=poll.id in active,
            )
            for poll in sorted(wanted, key=lambda poll: (poll.priority, poll.id))
        }

    def desk(self) -> Desk:
        return Desk(self.store, self.reached_boards, self.claiming_polls, self.identity, self.clock)

    def scheduler(self, desk: Desk, executor: ThreadPoolExecutor | None = None) -> Scheduler:
        run = BoardPoll(self.store, desk, lambda poll: self.reach(poll.board or ""))
        return Scheduler(
            self.store,
            self.identity.boot_id,
            run,
            metrics=self.metrics,
            # A poll is as soon taken over from a dead scheduler as a run is from a dead worker.
            lease=self.configuration.workers.lease,
            executor=executor,
            redact=self.redactor.text,
        )

    def worker(self) -> Worker:
        workers = self.configuration.workers
        settings = EngineSettings(slots=workers.slots, lease=workers.lease, tick=workers.tick)
        return Worker(self.store, self.clock, settings, owner=self.identity.boot_id)

    # -- what is old

    def ages(self) -> Ages:
        kept = self.configuration.retention
        return Ages(kept.timeline, kept.runs, kept.failed, kept.keys, kept.occurrences)

    def nightly(self) -> Nightly | None:
        """None: only people remove what is old."""
        at = self.configuration.retention.at
        if at == "never":
            return None
        zone = ZoneInfo(self.configuration.timezone)
        return Nightly(self.store, self.ages(), time.fromisoformat(at), zone, self.identity.boot_id, self.clock)

    # -- preparing boards

    def plan_board(self, name: str) -> BoardPlan:
        """What the board lacks; reads only. Raises SourceError."""
        board = self.board(name)
        return plan_board(board.client, board.settings)

    def apply_board_plan(self, name: str, plan: BoardPlan) -> Applied:
        """Adds what the plan shows. Raises SourceError."""
        board = self.board(name)
        return apply_plan(board.client, board.settings, plan)

    def create_board(self, name: str, *, title: str, parent_page: str) -> NewBoard:
        """A new board with every column under a page, or the one of that title that is there. Raises SourceError."""
        board = self.board(name)
        return create_board(board.client, board.settings, title=title, parent_page=parent_page)

    # -- local boards

    def serves(self, connection: str) -> bool:
        """Whether some process of this machine serves that local board now."""
        return is_served(self.local_connections()[connection].url)

    def local_board_file(self, connection: str) -> Path:
        return self.configuration.data / f"board-{connection}.db"

    def serve_local_boards(self) -> Callable[[], None]:
        """Serve, in threads, the local boards that no other process serves yet; returns what ends that."""
        stack = ExitStack()
        for name, connection in self.local_connections().items():
            path = self.local_board_file(name)
            if is_served(connection.url):
                log.info("the local board is served already", connection=name, url=connection.url)
                continue
            try:
                stack.enter_context(running(path, port=connection.port, durable=True))
            except OSError as error:
                stack.close()
                raise ConfigError(
                    f"port {connection.port} cannot be used for the local board ({error.strerror}): end what uses it, "
                    "or give the connection another `port:`",
                    where=f"connections: {name}",
                ) from error
            log.info("serving the local board", connection=name, url=connection.url)
        return stack.close

    def use(self, configuration: Configuration) -> None:
        """Take over reloaded polls. Connections, boards and workers stay as they were at the start. What was given up
        is tried again: somebody has put a hand to it."""
        for breaker in self._breakers.values():
            breaker.reset()
        self.redactor.learn(configuration.secrets)
        self.configuration = replace(self.configuration, polls=configuration.polls, secrets=configuration.secrets)

    def set_places(self) -> None:
        """As many places a poll as its `max_concurrent` says."""
        with self.store.write() as uow:
            for poll in self.configuration.polls.values():
                uow.places.set_places(poll.id, poll.claim.max_concurrent)

    def watcher(self) -> ConfigWatcher:
        return ConfigWatcher(self.configuration.folder, models(), self.configuration)


def _action_of(poll: PollConfig) -> CardAction:
    for action in ACTIONS.values():
        if isinstance(poll.action, action.model):
            return action.build(poll.action, poll)
    raise ConfigError(f"poll {poll.id}: no action of this version does that")


def _filter_of(poll: PollConfig) -> Callable[[Card, datetime], bool]:
    described: dict[str, JSON] = {"id": poll.id, "owner": poll.owner, "workspace": poll.workspace}

    def wants(card: Card, now: datetime) -> bool:
        return poll.filter is None or poll.filter.matches(card, described, now)

    return wants


def serve_board(path: Path, port: int, *, faults: Sequence[dict[str, Any]] = ()) -> None:
    """Serve one local board in this thread until SIGTERM or SIGINT. `faults` are on from the start; raises ValueError
    for one that is not understood."""
    path.parent.mkdir(parents=True, exist_ok=True)
    serve(path, port=port, faults=faults)


def port_answers(port: int) -> bool:
    """Whether anything listens there on this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
