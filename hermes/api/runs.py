"""`/api/v1/runs`: starting a run under a key, reading it, stopping it, going on with it. Only runs that were started
under a key in the caller's namespace are seen here: cards and effects are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from hermes.api.authentication import Caller, needs
from hermes.api.problems import Problem
from hermes.api.reading import decoded, json_body
from hermes.api.service import Service
from hermes.firing import shown_key
from hermes.model.api_key import Scope
from hermes.model.json import JSON
from hermes.model.run import Run, RunState, TimelineEntry
from hermes.operations import cancel_run, resume_run, steps_in_doubt
from hermes.ports.runs import Decision, Resumed
from hermes.ports.survey import WaitFor
from hermes.starting import start, started_run
from hermes.validated import NotFitting, places_of

router = APIRouter(tags=["runs"])
M = TypeVar("M", bound=BaseModel)
NEWEST = 200
"""Entries of a timeline."""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StartRequest(_Asked):
    function: str
    """A durable function of the modules under `functions:`."""
    key: str
    """What the run is about; the same key is the same run."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """By the names of the function's parameters."""
    at: AwareDatetime | None = None
    """Not before then."""


class CancelRequest(_Asked):
    reason: str = Field(default="cancelled by the API", min_length=1, max_length=500)


class ResumeRequest(_Asked):
    decision: Literal["done", "again"] | None = None
    """Of a step that may have happened: it did, or it is to be made (again)."""
    result: JsonValue = None
    """With `done`: what the step had returned."""


class RunError(BaseModel):
    kind: str
    message: str
    trace: str | None = None
    """Only for keys with the scope runs:debug."""


class Wait(BaseModel):
    what: str
    """event, delay, run, attempt"""
    name: str
    about: str | None
    """Of an event its instance; of a run its id."""
    since: datetime | None
    until: datetime | None
    """None: for ever."""


class Entry(BaseModel):
    at: datetime
    what: str
    step: int | None


class RunAnswer(BaseModel):
    id: str
    key: str
    namespace: str
    function: str
    state: RunState
    reason: str | None
    """In plain words: a refusal, why it waits or is parked, who cancelled it."""
    created_at: datetime
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    deliveries: int
    result: JsonValue
    error: RunError | None
    waits: list[Wait]
    timeline: list[Entry] | None = None


class ChangedAnswer(BaseModel):
    changed: bool
    """False: it was so already."""
    run: RunAnswer


@router.post(
    "/runs",
    status_code=201,
    response_model=RunAnswer,
    responses={200: {"model": RunAnswer, "description": "There was a run under this key: this is it."}},
    summary="Start a run under a key",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": StartRequest.model_json_schema()}},
        }
    },
)
async def start_run(request: Request, caller: Annotated[Caller, Depends(needs(Scope.runs_write))]) -> JSONResponse:
    """Once, however often it is asked for: a key that has a run answers 200 with that run, whatever came of it."""
    service: Service = request.app.state.service
    asked = _read(StartRequest, await json_body(service, request))

    def work() -> tuple[RunAnswer, bool]:
        done = start(service.app, asked.function, asked.key, asked.args, namespace=caller.namespace, due_at=asked.at)
        return _told(service, caller, done.run), done.created

    told, created = await service.in_thread(work)
    location = f"/api/v1/runs/{quote(told.key, safe='')}"
    return JSONResponse(told.model_dump(mode="json"), 201 if created else 200, headers={"Location": location})


@router.get("/runs/{key:path}", response_model=RunAnswer, summary="A run by its key")
async def read_run(
    request: Request,
    key: str,
    caller: Annotated[Caller, Depends(needs(Scope.runs_read))],
    timeline: Annotated[Literal["summary"] | None, Query(description="Also what happened to it, in short.")] = None,
) -> JSONResponse:
    service: Service = request.app.state.service
    wanted = decoded(key)

    def work() -> RunAnswer:
        return _told(service, caller, _run(service, caller, wanted), with_timeline=timeline is not None)

    return JSONResponse((await service.in_thread(work)).model_dump(mode="json"))


@router.post(
    "/runs/{key:path}/cancel",
    response_model=ChangedAnswer,
    summary="Stop a run",
    openapi_extra={
        "requestBody": {
            "required": False,
            "content": {"application/json": {"schema": CancelRequest.model_json_schema()}},
        }
    },
)
async def cancel(
    request: Request, key: str, caller: Annotated[Caller, Depends(needs(Scope.runs_write))]
) -> JSONResponse:
    """At once when it waits, at its next step when it works. One that is cancelled already stays as it is."""
    service: Service = request.app.state.service
    asked = _read(CancelRequest, await json_body(service, request) or ({},))

    def change(run: Run) -> bool:
        if cancel_run(service.app, run.id, asked.reason) is not None:
            return True
        if _again(service, run).state is not RunState.cancelled:
            raise Problem(409, "over", "The run is over already.")
        return False

    return await _change(service, caller, decoded(key), change)


@router.post(
    "/runs/{key:path}/resume",
    response_model=ChangedAnswer,
    summary="Go on with a run that failed, is parked or was cancelled",
    openapi_extra={
        "requestBody": {
            "required": False,
            "content": {"application/json": {"schema": ResumeRequest.model_json_schema()}},
        }
    },
)
async def resume(
    request: Request, key: str, caller: Annotated[Caller, Depends(needs(Scope.runs_write))]
) -> JSONResponse:
    """Under its key; finished steps stay finished. One that goes on already stays as it is."""
    service: Service = request.app.state.service
    asked = _read(ResumeRequest, await json_body(service, request) or ({},))
    if "result" in asked.model_fields_set and asked.decision != "done":
        raise Problem(422, "does_not_fit", "`result` goes with `decision: done`.")

    def change(run: Run) -> bool:
        done = resume_run(
            service.app,
            run.id,
            decision=Decision(asked.decision) if asked.decision is not None else None,
            result_json=json.dumps(asked.result, ensure_ascii=False) if asked.decision == "done" else None,
            by=caller.name,
        )
        if done is Resumed.needs_decision:
            names = ", ".join(f"{step.seq} {step.name}" for step in steps_in_doubt(service.app, run.id))
            raise Problem(409, "needs_decision", f"A step may have happened ({names}): say `decision`: done, or again.")
        if done is Resumed.forgotten:
            raise Problem(409, "forgotten", "Its steps are no longer kept: start it anew under another key.")
        if done is Resumed.not_stopped and _again(service, run).state in (RunState.succeeded, RunState.refused):
            raise Problem(409, "over", "The run has ended well: there is nothing to resume.")
        return done is Resumed.resumed

    return await _change(service, caller, decoded(key), change)


async def _change(service: Service, caller: Caller, key: str, change: Callable[[Run], bool]) -> JSONResponse:
    def work() -> ChangedAnswer:
        run = _run(service, caller, key)
        changed = change(run)
        return ChangedAnswer(changed=changed, run=_told(service, caller, _again(service, run)))

    return JSONResponse((await service.in_thread(work)).model_dump(mode="json"))


def _read(model: type[M], body: tuple[JSON] | None) -> M:
    if body is None:
        raise Problem(400, "bad_json", "A JSON body is needed.")
    try:
        return model.model_validate_json(json.dumps(body[0]))
    except ValidationError as error:
        raise NotFitting("the body does not fit", places_of(error)) from None


def _run(service: Service, caller: Caller, key: str) -> Run:
    run = started_run(service.app, caller.namespace, key)
    if run is None or run.namespace != caller.namespace:
        raise Problem(404, "no_such_run", "There is no run under that key in this namespace.")
    return run


def _again(service: Service, run: Run) -> Run:
    with service.app.store.read() as unit:
        return unit.runs.get(run.id) or run


def _told(service: Service, caller: Caller, run: Run, *, with_timeline: bool = False) -> RunAnswer:
    redact = service.app.redactor.text
    waits: list[WaitFor] = []
    timeline: list[TimelineEntry] | None = None
    with service.app.store.read() as unit:
        if run.state is RunState.waiting:
            waits = list(unit.survey.waits_of([run.id]).get(run.id, ()))
        if with_timeline:
            timeline = list(unit.runs.timeline(run.id))[-NEWEST:]
    error = None
    if run.error is not None:
        trace = redact(run.error.trace) if run.error.trace and caller.may(Scope.runs_debug) else None
        error = RunError(kind=run.error.kind, message=redact(run.error.message)[:1000], trace=trace)
    return RunAnswer(
        id=run.id,
        key=shown_key(run),
        namespace=run.namespace,
        function=run.function,
        state=run.state,
        reason=redact(run.reason) if run.reason else None,
        created_at=run.created_at,
        due_at=run.due_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        deliveries=run.deliveries,
        result=run.result,
        error=error,
        waits=[Wait(**_wait(wait)) for wait in waits],
        timeline=None if timeline is None else [Entry(at=it.at, what=it.what, step=it.step) for it in timeline],
    )


def _wait(wait: WaitFor) -> dict[str, Any]:
    return {name: getattr(wait, name) for name in Wait.model_fields}
