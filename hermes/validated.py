"""Values from outside against the operator's own types: whatever those do, it is the value that is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from hermes.errors import HermesError

log = structlog.get_logger("hermes.validated")

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Misfit:
    at: str
    """Where in the value: `items.3.amount`; empty for the whole."""
    message: str


class NotFitting(HermesError):
    """A value does not fit what it is declared to be. Nothing of the value is in the text."""

    def __init__(self, message: str, places: tuple[Misfit, ...] = ()) -> None:
        first = f": {places[0].at or 'it'}: {places[0].message}" if places else ""
        super().__init__(message + first)
        self.places = places


def checked(what: str, load: Callable[[], Any]) -> Any:
    """What `load` returns. Raises NotFitting, naming `what`."""
    try:
        return load()
    except Exception as error:  # noqa: BLE001 - validators are the operator's code: they may raise anything
        cause = error if isinstance(error, ValidationError) else error.__cause__
        if isinstance(cause, ValidationError):
            raise NotFitting(f"{what} does not fit its type", places_of(cause)) from None
        if isinstance(error, HermesError):
            raise NotFitting(str(error)) from None
        log.warning("a value was refused by an error of its type", about=what, error=f"{type(error).__name__}")
        raise NotFitting(f"{what} does not fit its type") from None


def places_of(error: ValidationError) -> tuple[Misfit, ...]:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(Misfit(".".join(map(str, one["loc"])), one["msg"]) for one in found[:SHOWN])
