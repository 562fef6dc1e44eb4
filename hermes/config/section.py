"""What every section of a configuration file has in common, and the few types they share."""

from __future__ import annotations

from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints, WithJsonSchema

from hermes.config.yaml_file import plain_value


class Interpolated(str):
    """A value that came whole from the environment: still allowed to be a number or a truth value."""

    __slots__ = ()


def _from_environment(value: Any) -> Any:
    return plain_value(value) if isinstance(value, Interpolated) else value


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


Whole = Annotated[int, BeforeValidator(_from_environment)]
Flag = Annotated[bool, BeforeValidator(_from_environment)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
"""Of a poll, a connection, a board, a channel."""


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError(f"unknown timezone {name[:60]!r}: expected an IANA name such as Europe/Berlin") from exc
    if name.upper() in ("EST", "MST", "HST") or name.startswith("Etc/GMT"):
        raise ValueError(f"{name!r} is a fixed offset: expected a place such as Europe/Berlin, or UTC")
    return name


Zone = Annotated[str, AfterValidator(_zone), WithJsonSchema({"type": "string", "examples": ["Europe/Berlin", "UTC"]})]
