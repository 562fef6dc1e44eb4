"""The ASGI application: routes, answers and what stands before them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.types import ASGIApp

from hermes.api import events, problems, runs
from hermes.api.authentication import Uses
from hermes.api.guard import Guard
from hermes.api.problems import ErrorAnswer
from hermes.api.service import Service

PREFIX = "/api/v1"
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request cannot be read: path, header or JSON."},
    401: {"description": "No key, or none that is valid."},
    403: {"description": "The key lacks the scope, or works in another namespace."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is not application/json."},
    422: {"description": "It can be read and cannot be: `code` and `places` say what does not fit."},
    429: {"description": "Too much at once, or too many events kept; see Retry-After."},
    503: {"description": "The database cannot be used for now; see Retry-After."},
}
_health = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str


@_health.get("/health", summary="Whether the API answers; needs no key and asks nothing of the database")
async def health() -> Health:
    return Health(status="ok")


def build(service: Service) -> ASGIApp:
    try:
        shown = version("hermes-poll")
    except PackageNotFoundError:
        shown = "unknown"
    api = FastAPI(
        title="Hermes",
        version=shown,
        description="Fires events that durable functions wait for, and starts runs under a key.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    api.state.service = service
    api.state.uses = Uses(service.app.clock)
    problems.install(api)
    told = {status: {"model": ErrorAnswer, **about} for status, about in _ERRORS.items()}
    api.include_router(events.router, prefix=PREFIX, responses=told)
    api.include_router(runs.router, prefix=PREFIX, responses=told)
    api.include_router(_health, prefix=PREFIX)
    return Guard(api, hosts={service.settings.host, *service.settings.hosts})
