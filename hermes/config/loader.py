"""Reads `config/hermes.yaml` and `config/polls/*.yaml` into one checked value. Knows no adapter: the models of
connections, boards, sources and actions are handed in by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from tzlocal import get_localzone_name

from hermes.config.configuration import Configuration, Models, PollConfig, Reading, Report
from hermes.config.hermes_file import HermesFile
from hermes.config.interpolation import interpolate
from hermes.config.poll_file import NOT_YET, BoardSource, PollFile
from hermes.config.problems import ConfigProblems, Problem, allowed, did_you_mean
from hermes.config.validation import ConfigFile, Loc, secrets_in, validate
from hermes.config.versions import condition_version, definition_version
from hermes.config.yaml_file import MAX_BYTES, Scalar, parse_yaml
from hermes.config.yaml_file import Mapping as MappingNode
from hermes.errors import ConfigError
from hermes.ports.filter import Filter
from hermes.schedule.cadence import Cadence
from hermes.schedule.cron import Cron

HERMES_FILE = "hermes.yaml"
POLLS_FOLDER = "polls"


def load(folder: Path, models: Models, *, environ: Mapping[str, str] | None = None) -> Configuration:
    """The configuration in `folder`. Raises ConfigProblems with everything that is wrong in every file."""
    reading = read(folder, models, environ=environ)
    if reading.problems or reading.configuration is None:
        raise ConfigProblems(reading.problems)
    return reading.configuration


def read(folder: Path, models: Models, *, environ: Mapping[str, str] | None = None) -> Reading:
    return _Reader(folder, models, os.environ if environ is None else environ).read()


class _Reader:
    def __init__(self, folder: Path, models: Models, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._models = models
        self._environ = environ
        self._problems: list[Problem] = []
        self._files: dict[str, ConfigFile] = {}
        self._texts: dict[str, str] = {}
        self._secrets: set[str] = set()

    @cached_property
    def _host_zone(self) -> str:
        try:
            return ZoneInfo(get_localzone_name()).key
        except Exception:  # noqa: BLE001  (tzlocal raises many kinds on odd hosts; UTC is at least no lie)
            return "UTC"

    def read(self) -> Reading:
        if not self._folder.is_dir():
            return Reading(None, (Problem(str(self._folder), 0, 0, "is not a folder (where is hermes.yaml?)"),))
        base = self._hermes()
        polls: dict[str, PollConfig] = {}
        broken: set[str] = set()
        for path in self._poll_paths():
            poll = self._poll(path, base)
            if poll is None:
                broken.add(path.stem)
            else:
                polls[poll.id] = poll
        configuration = None if base is None else self._configuration(base, polls)
        if configuration is not None:
            report = Report(self._files)
            for check in self._models.checks:
                check(configuration, report)
            late = {key for key, file in self._files.items() if file.problems}
            broken |= {key.removeprefix("poll:") for key in late if key.startswith("poll:")}
            good = {name: poll for name, poll in polls.items() if name not in broken}
            configuration = None if "hermes" in late else self._configuration(base, good)
        for file in self._files.values():
            self._problems.extend(file.problems)
        return Reading(configuration, tuple(sorted(set(self._problems))), frozenset(broken))

    def _configuration(self, base: _Base | None, polls: dict[str, PollConfig]) -> Configuration | None:
        if base is None:
            return None
        file = base.file
        home = self._folder.resolve().parent
        data = (home / file.data).resolve()
        database = file.database.get_secret_value() if file.database else f"sqlite:///{data / 'hermes.db'}"
        return Configuration(
            folder=self._folder,
            data=data,
            database_url=_absolute_sqlite(database, home),
            timezone=file.timezone or self._host_zone,
            timezone_from_host=file.timezone is None,
            functions=file.functions,
            workers=file.workers,
            log=file.log,
            connections=base.connections,
            boards=base.boards,
            board_connections=base.board_connections,
            channels=file.channels,
            polls=dict(sorted(polls.items())),
            secrets=frozenset(self._secrets),
            api=file.api,
            retention=file.retention,
        )

    # hermes.yaml

    def _hermes(self) -> _Base | None:
        path = self._folder / HERMES_FILE
        if not path.is_file():
            self._problems.append(Problem(self._shown(path), 0, 0, "is missing"))
            return None
        file = self._open(path, "hermes")
        if file is None:
            return None
        base = validate(file, (), HermesFile)
        connections = self._connections(file)
        boards, board_connections = self._boards(file)
        if base is None or file.problems:
            return None
        self._secrets.update(secrets_in([base, connections, boards]))
        if base.database is not None and not _has_password(base.database.get_secret_value()):
            self._secrets.discard(base.database.get_secret_value())  # a path, which logs may show
        return _Base(base, connections, boards, board_connections)

    def _connections(self, file: ConfigFile) -> dict[str, BaseModel]:
        return self._typed_sections(
            file,
            "connections",
            lambda name: self._by_type(file, ("connections", name), self._models.connections, "connection"),
        )

    def _boards(self, file: ConfigFile) -> tuple[dict[str, BaseModel], dict[str, str]]:
        connections = file.node(("connections",))
        known = list(connections.items) if isinstance(connections, MappingNode) else []
        board_connections: dict[str, str] = {}

        def model(name: str) -> type[BaseModel] | None:
            loc: Loc = ("boards", name)
            connection = file.value((*loc, "connection"))
            if not isinstance(connection, str):
                file.say(loc, "key `connection` is missing", at_key=True)
                return None
            if connection not in known:
                hint = did_you_mean(connection, known)
                file.say((*loc, "connection"), f"no such connection `{connection}`.{hint} {allowed(known)}")
                return None
            board_connections[name] = connection
            return self._models.boards.get(str(file.value(("connections", connection, "type"))))

        return self._typed_sections(file, "boards", model), board_connections

    def _typed_sections(
        self, file: ConfigFile, section: str, model_of: Callable[[str], type[BaseModel] | None]
    ) -> dict[str, BaseModel]:
        found: dict[str, BaseModel] = {}
        node = file.node((section,))
        for name, value in node.items.items() if isinstance(node, MappingNode) else ():
            if isinstance(value, MappingNode) and (model := model_of(name)) is not None:
                typed = validate(file, (section, name), model)
                if typed is not None:
                    found[name] = typed
        return found

    def _by_type(
        self, file: ConfigFile, loc: Loc, models: Mapping[str, type[BaseModel]], what: str
    ) -> type[BaseModel] | None:
        kind = file.value((*loc, "type"))
        if isinstance(kind, str) and kind in models:
            return models[kind]
        known = sorted(models)
        if kind is None:
            file.say(loc, f"key `type` is missing {allowed(known)}", at_key=True)
        elif f"{what}.type.{kind}" in NOT_YET:
            later = NOT_YET[f"{what}.type.{kind}"]
            file.say((*loc, "type"), f"{later} is not supported in this version {allowed(known)}")
        else:
            file.say((*loc, "type"), f"unknown {what} type `{kind}`.{did_you_mean(str(kind), known)} {allowed(known)}")
        return None

    # polls

    def _poll_paths(self) -> list[Path]:
        folder = self._folder / POLLS_FOLDER
        if not folder.is_dir():
            return []
        paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        for path in paths:
            if path.suffix.lower() in (".yml", ".yaml") and path.suffix != ".yaml":
                self._problems.append(
                    Problem(self._shown(path), 0, 0, f"rename it to {path.stem}.yaml: it is not read")
                )
        return [path for path in paths if path.suffix == ".yaml"]

    def _poll(self, path: Path, base: _Base | None) -> PollConfig | None:
        file = self._open(path, f"poll:{path.stem}")
        if file is None:
            return None
        self._refuse_later(file)
        poll = validate(file, (), PollFile)
        source_model = (
            self._by_type(file, ("source",), self._models.sources, "source") if _has(file, "source") else None
        )
        source = validate(file, ("source",), source_model) if source_model else None
        action_model = (
            self._by_type(file, ("action",), self._models.actions, "action") if _has(file, "action") else None
        )
        action = validate(file, ("action",), action_model) if action_model else None
        declared = file.value(("poll",))
        if isinstance(declared, str) and declared != path.stem:
            file.say(("poll",), f"`{declared}` must be the file's name: rename the file or write `poll: {path.stem}`")
        if base is not None and isinstance(source, BoardSource) and source.board not in base.boards:
            hint = did_you_mean(source.board, base.boards)
            file.say(
                ("source", "board"), f"no such board `{source.board}` in {HERMES_FILE}.{hint} {allowed(base.boards)}"
            )
        expression = self._compile(file)
        if poll is None or source is None or action is None or file.problems:
            return None
        self._secrets.update(secrets_in([poll, source, action]))
        zone = poll.schedule.timezone or (base.file.timezone if base else None) or self._host_zone
        definition = file.as_written()
        return PollConfig(
            id=poll.poll,
            owner=poll.owner,
            workspace=poll.workspace,
            source=source,
            schedule=poll.schedule,
            cadence=Cadence(
                poll_id=poll.poll,
                every=poll.schedule.every,
                cron=Cron.parse(poll.schedule.cron) if poll.schedule.cron else None,
                zone=ZoneInfo(zone),
                jitter=poll.schedule.jitter,
            ),
            filter=expression,
            action=action,
            claim=poll.claim,
            priority=poll.priority,
            stop=poll.stop,
            enabled=poll.enabled,
            file=file.name,
            definition=definition,
            definition_version=definition_version(definition),
            condition_version=condition_version(definition),
        )

    def _refuse_later(self, file: ConfigFile) -> None:
        for key, what in NOT_YET.items():
            path = tuple(key.split("."))
            if file.node(path) is not None:
                file.say(path, f"{what} (`{key}`) is not supported in this version", at_key=True)
                _remove(file, path)
            elif file.value(path[:-1]) == path[-1] and path[0] == "schedule":
                file.say(path[:-1], f"{what} is not supported in this version (allowed: once, skip)")
                _remove(file, path[:-1])

    def _compile(self, file: ConfigFile) -> Filter | None:
        node = file.node(("filter",))
        text = file.value(("filter",))
        if (
            self._models.filters is None
            or not isinstance(node, Scalar)
            or not isinstance(text, str)
            or not text.strip()
        ):
            return None
        try:
            return self._models.filters.compile(text.rstrip())
        except ConfigError as exc:
            line, column = file.position(("filter",))
            inside = re.fullmatch(r"(\d+):(\d+)", exc.where or "")
            suffix = ""
            if inside and node.plain and node.resolved is None and "\n" not in text and int(inside[1]) == 1:
                column += int(inside[2]) - 1
            elif inside and node.style == "|":
                indent = self._indent_below(file, node)
                line, column = line + int(inside[1]), indent + int(inside[2])
            elif inside:
                suffix = f" (at {inside[1]}:{inside[2]} of the expression)"
            file.problems.append(Problem(file.name, line, column, f"{exc.message}{suffix}"))
            return None

    def _indent_below(self, file: ConfigFile, node: Scalar) -> int:
        lines = self._texts[file.name].splitlines()
        below = lines[node.line] if node.line < len(lines) else ""
        return len(below) - len(below.lstrip(" "))

    # files

    def _open(self, path: Path, key: str) -> ConfigFile | None:
        shown = self._shown(path)
        try:
            with path.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
            root, problems = parse_yaml(raw, shown)
        except ConfigProblems as exc:
            self._problems.extend(exc.problems)
            return None
        except OSError as exc:
            self._problems.append(Problem(shown, 0, 0, f"cannot be read: {exc.strerror}"))
            return None
        file = ConfigFile(shown, root, problems)
        if not isinstance(root, MappingNode):
            self._problems.append(Problem(shown, root.line, root.column, "expected a section of keys (`key: value`)"))
            return None
        self._texts[shown] = raw.decode("utf-8-sig")
        for scalar, what in interpolate(root, self._environ):
            file.problems.append(Problem(shown, scalar.line, scalar.column, what))
        self._files[key] = file
        return file

    def _shown(self, path: Path) -> str:
        """The file as the operator would write it: as the folder was given, else from where they stand."""
        if not path.is_absolute():
            return str(path)
        here = Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path.relative_to(self._folder.parent))


@dataclass(frozen=True, slots=True)
class _Base:
    """A `hermes.yaml` in which nothing is wrong."""

    file: HermesFile
    connections: dict[str, BaseModel]
    boards: dict[str, BaseModel]
    board_connections: dict[str, str]


def _has(file: ConfigFile, key: str) -> bool:
    return isinstance(file.node((key,)), MappingNode)


def _remove(file: ConfigFile, path: tuple[str, ...]) -> None:
    """Takes a key that was refused by name out of the tree, so that it is not refused again as unknown."""
    owner = file.node(path[:-1])
    if isinstance(owner, MappingNode):
        owner.items.pop(path[-1], None)


def _has_password(url: str) -> bool:
    return re.search(r"://[^/@]*:[^/@]*@", url) is not None


def _absolute_sqlite(url: str, home: Path) -> str:
    """SQLite paths in the file are relative to the folder above `config/`, wherever the command is run from."""
    prefix = "sqlite:///"
    if url.startswith(prefix) and not url.startswith("sqlite:////") and url != prefix + ":memory:":
        return prefix + str((home / url.removeprefix(prefix)).resolve())
    return url
