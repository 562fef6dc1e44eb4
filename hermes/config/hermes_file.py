"""`config/hermes.yaml`: the process, its connections and its boards."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from hermes.config.duration import PATTERN, Duration, between, parse_duration, show_duration
from hermes.config.section import Id, Section, Text, Whole, Zone


class MayBeLiteral:
    """Marks a secret that may stand in the file as it is: only a password inside it may not."""


class Workers(Section):
    slots: Annotated[Whole, Field(ge=1, le=256)] = 4
    """Runs driven at once by one process."""
    lease: Annotated[Duration, between("5s", "1h")] = timedelta(seconds=30)
    """How long a run stays a dead worker's before another takes it over."""
    tick: Annotated[Duration, between("1s", "1m")] = timedelta(seconds=1)
    """How often the background loops look."""


class Api(Section):
    """Off without this section."""

    host: Text = "127.0.0.1"
    """The address it listens at; one that other machines reach belongs behind something that speaks TLS."""
    port: Annotated[Whole, Field(ge=1, le=65535)] = 8451
    hosts: tuple[Text, ...] = ()
    """Names under which it is asked for, beside this machine's own and `host`; requests for others are refused."""
    max_body_bytes: Annotated[Whole, Field(ge=1024, le=1024 * 1024)] = 256 * 1024
    """Of one request."""

    @field_validator("hosts", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


def _forever(value: Any) -> Any:
    try:
        return None if value == "forever" else parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or forever") from error


class Retention(Section):
    """What is kept of runs that are over. One that can still go on is kept whole."""

    timeline: Annotated[Duration, between("1h", "3650d")] = timedelta(days=90)
    """Of runs that succeeded or were refused."""
    runs: Annotated[Duration, between("1h", "3650d")] = timedelta(days=90)
    """The same runs' steps, arguments, long results, timelines, and what was written to their cards."""
    failed: Annotated[Duration, between("1h", "3650d")] = timedelta(days=180)
    """The same of runs that failed, parked or were cancelled; until then they can be resumed."""
    keys: Annotated[
        timedelta | None,
        BeforeValidator(_forever),
        PlainSerializer(lambda kept: "forever" if kept is None else show_duration(kept)),
        WithJsonSchema({"type": "string", "pattern": f"^forever$|{PATTERN}", "examples": ["forever", "400d"]}),
        Field(json_schema_extra={"default": "forever"}),
    ] = None
    """Key and ending of a run: as long as that, asking for it again starts nothing."""
    occurrences: Annotated[Duration, between("1h", "3650d")] = timedelta(days=90)
    """Runs of polls."""
    at: Annotated[str, Field(pattern=r"^(never|([01]\d|2[0-3]):[0-5]\d)$")] = "03:30"
    """When, each night, what is older is removed, in `timezone`; never: only by `runs prune`."""

    @field_validator("keys", mode="after")
    @classmethod
    def _keys_outlive_runs(cls, value: timedelta | None, info: ValidationInfo) -> timedelta | None:
        longest = max((info.data[name] for name in ("runs", "failed") if name in info.data), default=timedelta(0))
        if value is not None and value < longest:
            raise ValueError(f"must be at least as long as `runs` and `failed`, {show_duration(longest)}")
        return value


class Log(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, JSON elsewhere."""


class HermesFile(Section):
    data: Text = "data"
    """Folder of the database and the local board, relative to the folder above `config/`."""
    database: Annotated[SecretStr, MayBeLiteral()] | None = None
    """SQLAlchemy URL; SQLite in `data` when absent."""
    timezone: Zone | None = None
    """Of polls that name none; the host's when absent."""
    functions: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")], ...] = ()
    """Python modules that hold durable functions."""
    workers: Workers = Workers()
    connections: dict[Id, dict[str, Any]] = Field(default_factory=dict)
    """By name; each is read by the model of its `type`."""
    boards: dict[Id, dict[str, Any]] = Field(default_factory=dict)
    """By name; each is read by the board model of its connection's type."""
    channels: dict[Id, SecretStr] = Field(default_factory=dict)
    """Where notices go: Apprise URLs by name."""
    api: Api | None = None
    """The API that fires events and starts runs."""
    retention: Retention = Retention()
    log: Log = Log()

    @field_validator("functions", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value
