"""The faults that have names: what each does, what it is like at Notion, and the fields of faults.py that make it up.

A new one is one row of the table; docs/faults.md is written from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

Fields: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Named:
    calls: str
    """any, read, write or query: which calls can meet it."""
    make: Callable[[Any], Fields]
    """The fields, for a value. Raises ValueError for a value that makes no sense."""
    does: str
    notion: str
    example: str
    default: Any = None
    """The value when none is given."""
    scripted: bool = False
    """Says what a person does: has no sense by rate."""


def describe(description: Fields) -> Fields:
    """`{"name": ..., "value": ..., ...}` with the fields of its mechanism. Raises ValueError."""
    name = description["name"]
    named = find(name)
    value = description.get("value")
    if value is None:
        value = named.default
    return {"calls": named.calls, **named.make(value), **description, "value": value}


def find(name: Any) -> Named:
    if name in NAMES:
        return NAMES[name]
    near = get_close_matches(str(name), NAMES, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(NAMES)}"
    raise ValueError(f"there is no fault {name!r}{hint}")


def html_page(status: int, title: str) -> str:
    """What a network edge answers: five kilobytes that say little."""
    padding = "<!-- padding to disable browsers' friendly error pages -->\n" * 80
    return (
        f"<!DOCTYPE html>\n<html><head><title>{title}</title></head>\n<body>\n<h1>Error {status}</h1>\n"
        f"<p>{title}</p>\n{padding}</body></html>\n"
    )


def _answer(status: int, code: str, message: str, **more: Any) -> Callable[[Any], Fields]:
    return lambda value: {"kind": "answer", "status": status, "code": code, "message": message, **more}


def _page(status: int, title: str, kind: str = "answer") -> Callable[[Any], Fields]:
    return lambda value: {"kind": kind, "status": status, "html": html_page(status, title)}


_LIMITED = "You have been rate limited. Please try again in a few minutes."


def _limited(reason: str, holds: str) -> Callable[[Any], Fields]:
    """`value` is the header Retry-After, or `none`. A number of seconds is also kept to; other texts are only told."""

    def make(value: Any) -> Fields:
        told = str(value)
        return {
            "kind": "answer",
            "status": 429,
            "code": "rate_limited",
            "message": _LIMITED,
            "additional_data": {"rate_limit_reason": reason},
            "headers": {} if told == "none" else {"Retry-After": told},
            "holds": holds if _is_seconds(told) else "",
        }

    return make


def _overloaded(value: Any) -> Fields:
    told = str(value)
    return {
        "kind": "answer",
        "status": 529,
        "code": "service_overload",
        "message": "Notion is overloaded. Please try again later.",
        "headers": {} if told == "none" else {"Retry-After": told},
    }


def _is_seconds(told: str) -> bool:
    try:
        return 0 < float(told) < float("inf")
    except ValueError:
        return False


def seconds_of(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise ValueError(f"{value!r} is no number of seconds between 0 and 3600")
    return seconds


def _timed(kind: str, **more: Any) -> Callable[[Any], Fields]:
    return lambda value: {"kind": kind, "seconds": seconds_of(value), **more}


def _query(field: str) -> Callable[[Any], Fields]:
    return lambda value: {"kind": "query", field: seconds_of(value)}


def _edit(what: str, form: str) -> Callable[[Any], Fields]:
    """`form` is how the value must look: `OLD>NEW`, `COLUMN/OPTION`, `COLUMN/OLD>NEW`, `WORD`, or nothing."""

    def make(value: Any) -> Fields:
        text = "" if value is None else str(value)
        column, slash, rest = text.partition("/") if form.startswith("COLUMN/") else ("", "/", text)
        old, arrow, new = rest.partition(">") if form.endswith(">NEW") else (rest, ">", "-")
        if form and not (slash and arrow and old and new and (column or not form.startswith("COLUMN/"))):
            raise ValueError(f"its value must be {form}, not {value!r}")
        return {"kind": "edit", "edit": {"what": what, "column": column, "old": old, "new": new}}

    return make


_SAVED = "Notion saved it and could not say so in time."

NAMES: Mapping[str, Named] = {
    # -- refusals: surely not applied
    "rate_limited": Named(
        "any",
        _limited("public_api_request_rate_limit", "bot"),
        "429 with Retry-After; this integration is refused until it is over",
        "the integration's own budget of a minute is used up; 421 to 460 s have been seen",
        "rate_limited=460, rate_limited=NaN, rate_limited=none",
        default=2,
    ),
    "workspace_limited": Named(
        "any",
        _limited("public_api_space_request_rate_limit", "workspace"),
        "429 with Retry-After; every integration is refused until it is over",
        "all integrations of a workspace share a second budget: it comes however few calls we made",
        "workspace_limited=460",
        default=2,
    ),
    "request_blocked": Named(
        "any",
        _limited("public_api_request_blocked", ""),
        "429 that says not to retry",
        "Notion blocks an integration; a person has to look",
        "request_blocked=60",
        default="none",
    ),
    "overloaded": Named(
        "any",
        _overloaded,
        "529 service_overload with Retry-After",
        "Notion sheds load; like 429",
        "overloaded=5",
        default=2,
    ),
    "conflict": Named(
        "write",
        _answer(409, "conflict_error", "Conflict occurred while saving. Please try again."),
        "409 conflict_error, nothing saved",
        "happens on ordinary boards; there is no If-Match that would explain it",
        "conflict=5%",
    ),
    "conflict_400": Named(
        "write",
        _answer(400, "conflict_error", "Conflict occurred while saving. Please try again."),
        "conflict_error under status 400, nothing saved",
        "some answers carry the code with another HTTP status",
        "conflict_400",
    ),
    "unauthorized": Named(
        "any",
        _answer(401, "unauthorized", "API token is invalid."),
        "401",
        "the token was revoked or rotated",
        "unauthorized --times -1",
    ),
    "restricted": Named(
        "any",
        _answer(403, "restricted_resource", "Insufficient permissions for this endpoint."),
        "403 restricted_resource",
        "the integration lacks a capability",
        "restricted",
    ),
    "unshared": Named(
        "any",
        _answer(404, "object_not_found", "Could not find page. Make sure it is shared with your integration."),
        "404 object_not_found",
        "deleted and not shared any more look alike",
        "unshared --page ID",
    ),
    "endpoint_removed": Named(
        "any",
        _answer(400, "invalid_request_url", "Invalid request URL."),
        "400 invalid_request_url",
        "the endpoint does not exist in this version of the API, or not any more",
        "endpoint_removed --route 'POST /v1/data_sources/{data_source_id}/query' --times -1",
    ),
    "version_retired": Named(
        "any",
        _answer(
            400,
            "validation_error",
            'Notion-Version header failed validation: Notion-Version header should be `"2027-01-01"`, '
            'instead was `"2026-03-11"`.',
        ),
        "400: the Notion-Version of the request is not one of those that are spoken",
        "versions are retired after years",
        "version_retired --times -1",
    ),
    # -- servers that are not well
    "internal_error": Named(
        "any",
        _answer(500, "internal_server_error", "Unexpected error occurred."),
        "500 before anything was done",
        "any bug of Notion's",
        "internal_error=2%",
    ),
    "unavailable": Named(
        "any",
        _answer(503, "service_unavailable", "Notion is unavailable, please try again later."),
        "503 before anything was done",
        "Notion is down or slow; the answer does not say whether a write was made",
        "unavailable=2%",
    ),
    "unavailable_after": Named(
        "write",
        lambda value: {"kind": "answer_after", "status": 503, "code": "service_unavailable", "message": _SAVED},
        "503 after the commit",
        "a write that is committed and still answered 503",
        "unavailable_after=5%",
    ),
    "committed": Named(
        "write",
        lambda value: {
            "kind": "answer_after",
            "status": 503,
            "code": "service_unavailable",
            "message": _SAVED,
            "additional_data": {"committed_resource_id": "b0a4d000-0000-4000-8000-00000000c0de"},
        },
        "503 after the commit, which says so",
        "sometimes the answer carries `committed_resource_id`",
        "committed",
    ),
    "bad_gateway": Named(
        "any",
        _page(502, "api.notion.com | 502: Bad gateway"),
        "502, a page of HTML, nothing done",
        "the network edge cannot reach Notion",
        "bad_gateway=1%",
    ),
    "bad_gateway_after": Named(
        "write",
        _page(502, "api.notion.com | 502: Bad gateway", "answer_after"),
        "502, a page of HTML, after the commit",
        "the edge lost the answer",
        "bad_gateway_after",
    ),
    "edge_timeout": Named(
        "any",
        _page(524, "api.notion.com | 524: A timeout occurred", "answer_after"),
        "524, a page of HTML, after the commit",
        "the edge waited for Notion for 100 s",
        "edge_timeout",
    ),
    "edge_block": Named(
        "any",
        _page(403, "Attention Required! | Cloudflare"),
        "403, a page of HTML, nothing done",
        "the edge takes us for a robot: no matter of permissions",
        "edge_block",
    ),
    # -- connections
    "lost": Named(
        "any",
        lambda value: {"kind": "drop_before"},
        "the connection is cut, nothing done",
        "a reset before Notion had read the request",
        "lost=1%",
    ),
    "drop": Named(
        "any",
        lambda value: {"kind": "drop"},
        "the connection is cut after the commit",
        "a reset before the answer arrived",
        "drop=1%",
    ),
    "hang": Named(
        "any",
        _timed("hang"),
        "waits so many seconds (by rate: up to so many), then commits and answers",
        "slow answers; a client that gave up meanwhile has still written",
        "hang=20",
        default=2.0,
    ),
    "ghost": Named(
        "write",
        _timed("ghost", status=None),
        "the connection is cut at once; the write lands so many seconds later (by rate: within so many)",
        "an abandoned request goes on inside Notion, for at most 60 s",
        "ghost=2.5@3%",
        default=2.0,
    ),
    "ghost_unavailable": Named(
        "write",
        _timed("ghost", status=503, code="service_unavailable", message="Notion is unavailable."),
        "503 at once; the write lands so many seconds later",
        "the same, seen through an answer",
        "ghost_unavailable=2",
        default=2.0,
    ),
    "ghost_gateway": Named(
        "write",
        _timed("ghost", status=504, html=html_page(504, "api.notion.com | 504: Gateway time-out")),
        "504 of the edge at once; the write lands so many seconds later",
        "the same, through the edge",
        "ghost_gateway=2",
        default=2.0,
    ),
    # -- answers that are none
    "truncated": Named(
        "any",
        lambda value: {"kind": "garbled", "garble": "truncated"},
        "200 with half the JSON, after the commit",
        "an answer cut on the way",
        "truncated",
    ),
    "wrong_json": Named(
        "any",
        lambda value: {"kind": "garbled", "garble": "other"},
        "200 with JSON of another shape, after the commit",
        "a proxy or a changed endpoint answers something else",
        "wrong_json",
    ),
    "login_page": Named(
        "any",
        lambda value: {"kind": "garbled", "garble": "html"},
        "200 with a page of HTML, after the commit",
        "the sign-in page of a hotel or company network",
        "login_page",
    ),
    "trickle": Named(
        "any",
        _timed("trickle"),
        "answers a byte every so many seconds, after the commit",
        "a connection that barely lives outlasts every timeout that is counted per read",
        "trickle=1",
        default=1.0,
    ),
    # -- queries and columns
    "query_lag": Named(
        "query",
        _query("lag_seconds"),
        "a query is answered as of so many seconds ago (by rate: up to)",
        "the index lags a write",
        "query_lag=30@20%",
        default=5.0,
    ),
    "query_missing": Named(
        "query",
        _query("missing_seconds"),
        "a query leaves out rows that are new or were changed within so many seconds",
        "a row that is being indexed is in neither of two answers",
        "query_missing=10",
        default=5.0,
    ),
    "no_filter": Named(
        "query",
        lambda value: {"kind": "query", "ignore_filter": True},
        "a query ignores its filter",
        "seen: a filter dropped silently",
        "no_filter=5%",
    ),
    "cursor_expired": Named(
        "query",
        lambda value: {"kind": "query", "cursor_expired": True},
        "a query that goes on from a cursor is refused",
        "cursors are opaque and do not live for ever",
        "cursor_expired",
    ),
    "silent_column": Named(
        "write",
        lambda value: {"kind": "lenient"},
        "a write that names an unknown column is accepted, and that column passed over",
        "seen: 200 and nothing written",
        "silent_column --times -1",
    ),
    # -- people, in the middle of a run
    "rename_column": Named(
        "any",
        _edit("rename_column", "OLD>NEW"),
        "a person renames a column",
        "ids survive, names do not",
        "'rename_column=RunId>Run' --route 'PATCH /v1/pages/{page_id}' --skip 1",
        scripted=True,
    ),
    "delete_column": Named(
        "any",
        _edit("delete_column", "COLUMN"),
        "a person deletes a column",
        "writes that name it are refused",
        "delete_column=RunId",
        scripted=True,
    ),
    "rename_option": Named(
        "any",
        _edit("rename_option", "COLUMN/OLD>NEW"),
        "a person renames an option of a select or status",
        "its id stays, filters by its name miss",
        "'rename_option=Status/Todo>Next'",
        scripted=True,
    ),
    "delete_option": Named(
        "any",
        _edit("delete_option", "COLUMN/OPTION"),
        "a person deletes an option, and cards lose it",
        "a status option that is gone is refused",
        "delete_option=Status/Failed",
        scripted=True,
    ),
    "set_option": Named(
        "any",
        _edit("set_option", "COLUMN/OPTION"),
        "a person moves the page that the call names",
        "people drag cards whenever they like",
        "set_option=Status/Complete --page ID --after",
        scripted=True,
    ),
    "trash_page": Named(
        "any",
        _edit("trash_page", ""),
        "a person trashes the page that the call names",
        "it reads 200 with the flag; writes are refused",
        "trash_page --page ID --after",
        scripted=True,
    ),
    "trash_board": Named(
        "any",
        _edit("trash_board", ""),
        "a person trashes the board of the page or query that the call names",
        "as a trashed page, and queries go on",
        "trash_board",
        scripted=True,
    ),
    "move_page": Named(
        "any",
        _edit("move_page", "DATA_SOURCE"),
        "a person moves the page that the call names to another board",
        "it keeps its id and loses columns that the other board lacks",
        "move_page=DATA_SOURCE_ID --page ID",
        scripted=True,
    ),
}
