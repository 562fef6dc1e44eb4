"""`POST /api/v1/fire/{name}/{instance_id}`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from hermes.api.authentication import Caller, needs
from hermes.api.problems import Problem
from hermes.api.reading import decoded, header, json_body
from hermes.api.service import Service
from hermes.config.duration import parse_duration
from hermes.firing import Delivery, fire
from hermes.model.api_key import Scope

router = APIRouter(tags=["events"])

_ID = (
    "What the event is known by: the same one for the same name and instance is the same event, however often it comes."
)
_TTL = "For how long the event is kept when nobody waits for it: `90s`, `12h`, `30d`. Left out, as it is declared."


class TakenBy(BaseModel):
    id: str
    key: str | None


class FiredAnswer(BaseModel):
    event: int
    status: Literal["delivered", "kept"]
    run: TakenBy | None = None
    """The run whose wait took it."""
    kept_until: datetime | None = None
    """Until then the first wait of its name and instance takes it."""
    duplicate: bool = False
    """Its id had come before: nothing happened now, and this is where that event is."""


@router.post(
    "/fire/{name}/{instance_id:path}",
    status_code=202,
    response_model=FiredAnswer,
    summary="Fire an event",
    openapi_extra={
        "requestBody": {"required": False, "content": {"application/json": {"schema": {}}}},
    },
)
async def fire_event(
    request: Request,
    name: str,
    instance_id: str,
    caller: Annotated[Caller, Depends(needs(Scope.fire))],
    _event_id: Annotated[str | None, Header(alias="Idempotency-Key", description=_ID)] = None,
    _ttl: Annotated[str | None, Header(alias="Hermes-Event-TTL", description=_TTL)] = None,
) -> JSONResponse:
    """The oldest run that waits for this name and instance takes it, or it is kept for the first that will. Names and
    instances match character by character; the body is never looked at for that."""
    service: Service = request.app.state.service
    wanted, instance = decoded(name), decoded(instance_id)
    event_id, ttl = header(request, "Idempotency-Key"), _time_of(header(request, "Hermes-Event-TTL"))
    payload = await json_body(service, request)
    went = await service.in_thread(
        lambda: fire(
            service.app,
            wanted,
            instance,
            payload,
            namespace=caller.namespace,
            event_id=event_id,
            ttl=ttl,
            fired_by=caller.name,
        )
    )
    return JSONResponse(_told(went).model_dump(mode="json", exclude_none=True), 202)


def _told(went: Delivery) -> FiredAnswer:
    run = TakenBy(id=went.run.id, key=went.run.key) if went.run is not None else None
    return FiredAnswer(
        event=went.event_id,
        status="delivered" if run is not None else "kept",
        run=run,
        kept_until=went.kept_until,
        duplicate=went.duplicate,
    )


def _time_of(text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except (ValueError, OverflowError):
        raise Problem(422, "not_an_event", "Hermes-Event-TTL is a duration such as 90s, 12h or 30d.") from None
