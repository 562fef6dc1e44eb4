"""Answers that say what is wrong: one shape for all, and never more than the caller may know.

{"error": {"code": "does_not_fit", "message": "...", "places": [{"at": "amount", "message": "..."}]}}
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from hermes.errors import EventIdReused, HermesError, StoreError, TooManyKept
from hermes.firing import NotAnEvent
from hermes.operations import NotPossible
from hermes.starting import KeyOfAnother, NotAKey, UnknownFunction
from hermes.validated import NotFitting

log = structlog.get_logger("hermes.api")

SOON = {"Retry-After": "1"}
LATER = {"Retry-After": "60"}


class Place(BaseModel):
    at: str
    """Where in the value: `items.3.amount`."""
    message: str


class Wrong(BaseModel):
    code: str
    """For programs; does not change."""
    message: str
    """For people."""
    places: list[Place] | None = None
    """Of a value that does not fit its type."""


class ErrorAnswer(BaseModel):
    error: Wrong


class Problem(Exception):
    """Raised by a handler: the answer."""

    def __init__(self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers


TOLD: tuple[tuple[type[HermesError], int, str, Mapping[str, str] | None], ...] = (
    (NotFitting, 422, "does_not_fit", None),
    (NotAnEvent, 422, "not_an_event", None),
    (NotAKey, 422, "not_a_key", None),
    (UnknownFunction, 422, "unknown_function", None),
    (EventIdReused, 422, "event_id_reused", None),
    (KeyOfAnother, 409, "key_of_another", None),
    (NotPossible, 409, "not_possible", None),
    (TooManyKept, 429, "too_many_kept", LATER),
)
"""Errors whose text is for the caller."""
AWAY = "The database cannot be used for now. Nothing is surely kept: send it again, with the same Idempotency-Key."


def answer(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, places: list[Place] | None = None
) -> JSONResponse:
    wrong = ErrorAnswer(error=Wrong(code=code, message=message, places=places))
    return JSONResponse(wrong.model_dump(exclude_none=True), status, headers=dict(headers or {}))


def install(api: FastAPI) -> None:
    api.add_exception_handler(Problem, _problem)
    api.add_exception_handler(HermesError, _known)
    api.add_exception_handler(RequestValidationError, _parameters)
    api.add_exception_handler(HTTPException, _by_status)
    api.add_exception_handler(Exception, _accident)


async def _problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)  # noqa: S101 - registered for it
    return answer(error.status, error.code, error.message, error.headers)


async def _known(_request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, StoreError):
        log.warning("the API could not use the database", error=str(error))
        return answer(503, "unavailable", AWAY, SOON)
    for kind, status, code, headers in TOLD:
        if isinstance(error, kind):
            places = [Place(at=place.at, message=place.message) for place in getattr(error, "places", ())]
            return answer(status, code, str(error), headers, places or None)
    raise error


async def _parameters(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    places = [Place(at=".".join(map(str, one["loc"][1:])), message=str(one["msg"])) for one in error.errors()]
    return answer(422, "does_not_fit", "A parameter does not fit", places=places)


async def _by_status(_request: Request, error: Exception) -> JSONResponse:
    """Of the router: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    codes = {404: ("no_such_path", "There is nothing at this path."), 405: ("no_such_method", "Not with this method.")}
    code, message = codes.get(error.status_code, ("refused", "The request was refused."))
    return answer(error.status_code, code, message, error.headers)


async def _accident(_request: Request, _error: Exception) -> JSONResponse:
    """The guard logs it."""
    return accident()


def accident() -> JSONResponse:
    return answer(500, "internal", "Something failed here; the log says what.")
