"""The checked configuration as the rest of Hermes sees it, and what the composition root hands to the loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, SecretStr

from hermes.config.hermes_file import Api, Log, Retention, Workers
from hermes.config.poll_file import BoardSource, Claim, Schedule, Stop
from hermes.config.problems import Problem
from hermes.config.validation import ConfigFile, Loc
from hermes.model.claim import ClaimPolicy
from hermes.model.json import JSON
from hermes.ports.filter import Filter, FilterCompiler
from hermes.schedule.cadence import Cadence


@dataclass(frozen=True, slots=True)
class PollConfig:
    """One poll as configured. `source` and `action` are instances of the models handed to `load`."""

    id: str
    owner: str
    workspace: str
    source: BaseModel
    schedule: Schedule
    cadence: Cadence
    filter: Filter | None
    action: BaseModel
    claim: Claim
    priority: int
    stop: Stop
    enabled: bool
    file: str
    """As shown to people: `config/polls/x.yaml`."""
    definition: dict[str, JSON]
    """The file as written, `${NAME}` and all: holds no secret."""
    definition_version: str
    condition_version: str

    @property
    def board(self) -> str | None:
        """Name of the board it watches, if it watches one."""
        return self.source.board if isinstance(self.source, BoardSource) else None

    def claim_policy(self, *, shared: bool) -> ClaimPolicy:
        """`shared`: of its board's mode."""
        return ClaimPolicy(
            poll_id=self.id,
            condition_version=self.condition_version,
            priority=float(self.priority),
            lease=self.claim.lease,
            max_attempts=self.claim.max_attempts,
            max_concurrent=self.claim.max_concurrent,
            max_open=self.claim.max_open,
            at_once=self.claim.next == "at_once",
            restart_on_edit=self.claim.on_edit == "restart",
            read_body=self.claim.read_body,
            write_result=self.claim.write_result,
            comment_on=frozenset(self.claim.comment_on),
            shared=shared,
        )


@dataclass(frozen=True, slots=True)
class Configuration:
    folder: Path
    data: Path
    database_url: str = field(repr=False)
    """May hold a password: never shown; `sqlalchemy.make_url(...)` renders it without."""
    timezone: str
    timezone_from_host: bool
    functions: tuple[str, ...]
    workers: Workers
    log: Log
    connections: Mapping[str, BaseModel]
    boards: Mapping[str, BaseModel]
    board_connections: Mapping[str, str]
    """Connection name of each board."""
    channels: Mapping[str, SecretStr]
    """Apprise URLs by name."""
    polls: Mapping[str, PollConfig]
    secrets: frozenset[str] = field(repr=False, default=frozenset())
    """Every secret value in use, for redaction."""
    api: Api | None = None
    """None: it is not served."""
    retention: Retention = field(default_factory=Retention)


@dataclass(slots=True)
class Report:
    """Lets a check outside the loader name a place in a file."""

    _files: dict[str, ConfigFile]

    def poll(self, poll_id: str, path: Loc, what: str, *, at_key: bool = False) -> None:
        self._files[f"poll:{poll_id}"].say(path, what, at_key=at_key)

    def hermes(self, path: Loc, what: str, *, at_key: bool = False) -> None:
        self._files["hermes"].say(path, what, at_key=at_key)


Check = Callable[[Configuration, Report], None]
"""Something only others can know, such as the names of functions; says problems, raises nothing."""


@dataclass(frozen=True)
class Models:
    """What the composition root knows and the core does not. All by the value of `type`."""

    connections: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    boards: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """By the type of their connection; each has a `connection` field."""
    actions: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    sources: Mapping[str, type[BaseModel]] = field(default_factory=lambda: {"board": BoardSource})
    filters: FilterCompiler | None = None
    checks: tuple[Check, ...] = ()


@dataclass(slots=True)
class Reading:
    """One reading of the folder: what is good, and what is wrong with the rest."""

    configuration: Configuration | None
    """None when `hermes.yaml` is broken. Polls of broken files are missing from it."""
    problems: tuple[Problem, ...]
    broken_polls: frozenset[str] = frozenset()
    """By file stem, which is the poll's id."""
