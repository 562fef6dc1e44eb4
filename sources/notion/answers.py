"""What Notion's answers, and the lack of one, mean to the caller. One exception in, one `hermes.errors` value out.

A write is *surely not applied* only when no connection was made or when an answer below 500 (or one that says so by its
code) refused it. All else that is not a readable success leaves its outcome unknown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from notion_client.errors import HTTPResponseError, InvalidPathParameterError, RequestTimeoutError

from hermes.errors import (
    Conflict,
    Fatal,
    Gone,
    Misconfigured,
    Retryable,
    SourceError,
    Unauthorized,
    UnknownOutcome,
)

NO_HINT_SECONDS = 10.0
"""A pause when the other side says stop and not how long."""
SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 24 * 3600.0
"""No header stops a credential for longer than this."""
MESSAGE_LENGTH = 300

REFUSING_CODES = frozenset(
    {"unauthorized", "restricted_resource", "object_not_found", "invalid_json", "invalid_request_url"}
    | {"invalid_request", "missing_version", "validation_error", "conflict_error", "rate_limited", "service_overload"}
)
"""Codes that mean nothing was written, whatever the HTTP status beside them."""


class RateLimited(Retryable):
    """429 or 529: everybody who uses the credential pauses for `retry_after`."""

    retry_after: float


class StoppedUnknown(UnknownOutcome):
    """As `RateLimited`, for a write that no code of Notion's says was refused."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Blocked(Fatal):
    """429 that must not be retried: a person has to look. The others pause all the same."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SchemaRejected(Misconfigured):
    """The request does not fit the columns as they are now: read them again."""


class PartlyWritten(Misconfigured, UnknownOutcome):
    """A success that left a column out: a person must cure the board, and the rest of the write is on it."""


class EndpointGone(Fatal):
    """Notion has no such endpoint, or not in this version: nobody need ask again."""


class VersionRetired(Misconfigured, EndpointGone):
    """Notion does not speak this version of its API."""


class CursorExpired(Retryable):
    """The listing must be begun anew."""


class Committed(UnknownOutcome):
    """An error answer that says the write was made all the same."""

    def __init__(self, message: str, *, resource_id: str) -> None:
        super().__init__(message)
        self.resource_id = resource_id


def translate(exc: Exception, *, writes: bool, now: datetime, scrub: Callable[[str], str]) -> SourceError:
    """`scrub` removes the token from a text that came from outside."""
    if isinstance(exc, HTTPResponseError):
        return _from_answer(exc.status, exc.headers, exc.body, writes=writes, now=now, scrub=scrub)
    if isinstance(exc, RequestTimeoutError):
        # notion-client hides which timeout it was; what it was raised from still tells.
        cause = exc.__context__
        if isinstance(cause, httpx.ConnectTimeout | httpx.PoolTimeout):
            return Retryable("Notion could not be reached in time; nothing was sent")
        return _lost("Notion did not answer in time", writes)
    if isinstance(exc, httpx.ConnectError | httpx.ProxyError):
        return Retryable(f"Notion cannot be reached: {shorten(scrub(str(exc)))}; nothing was sent")
    if isinstance(exc, httpx.UnsupportedProtocol | httpx.LocalProtocolError | httpx.InvalidURL):
        # The text of these can hold a header or the URL as it was sent.
        return Misconfigured("The request to Notion cannot be made: check base_url and the token")
    if isinstance(exc, InvalidPathParameterError):
        return Misconfigured("An id for Notion holds characters that no id has")
    if isinstance(exc, httpx.HTTPError):
        return _lost(f"The connection to Notion broke ({type(exc).__name__})", writes)
    if isinstance(exc, json.JSONDecodeError | UnicodeDecodeError):
        return _lost("Notion's answer is cut off or is not JSON", writes)
    return _lost(f"The call to Notion failed ({type(exc).__name__})", writes)


def refuse_odd_answer(method: str, path: str, answer: object, *, writes: bool) -> dict[str, Any]:
    """A success must be a JSON object of the kind that was asked for, and no error in disguise: what another program
    answers for Notion must not look like an empty board or a page that has moved away."""
    wanted = next((kind for pattern, kind in _KINDS if pattern.match(f"{method} {path}")), None)
    if isinstance(answer, dict):
        kind = answer.get("object")
        rows = kind != "list" or isinstance(answer.get("results"), list)
        if rows and kind != "error" and wanted in (None, kind):
            return answer
    raise _lost("Notion's answer is not what it should be", writes)


_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"POST (data_sources/[^/]+/query|search)$", "list"),
        (r"(GET|PATCH) blocks/[^/]+/children$", "list"),
        (r"GET comments$", "list"),
        (r"POST comments$", "comment"),
        (r"(POST pages|(GET|PATCH) pages/[^/]+)$", "page"),
        (r"GET pages/[^/]+/markdown$", "page_markdown"),
        (r"(POST data_sources|(GET|PATCH) data_sources/[^/]+)$", "data_source"),
        (r"(POST databases|(GET|PATCH) databases/[^/]+)$", "database"),
        (r"GET users/[^/]+$", "user"),
    )
)
"""What a request is answered with."""


def _from_answer(
    status: int, headers: Mapping[str, str], body: str, *, writes: bool, now: datetime, scrub: Callable[[str], str]
) -> SourceError:
    envelope = _envelope(body)
    if envelope is None:
        return _not_from_notion(status, headers, body, writes=writes, now=now)
    code = str(envelope.get("code"))
    said = shorten(scrub(str(envelope.get("message") or code)))
    extra = envelope.get("additional_data")
    extra = extra if isinstance(extra, dict) else {}

    if code in ("rate_limited", "service_overload"):
        wait = retry_after_seconds(headers, now)
        reason = extra.get("rate_limit_reason")
        if reason == "public_api_request_blocked":
            return Blocked(
                "Notion has blocked this connection's requests (public_api_request_blocked) and says not to retry: "
                "look at the connection's page in Notion or ask Notion's support",
                retry_after=wait,
            )
        what = "is overloaded" if code == "service_overload" else "limits our requests"
        return RateLimited(f"Notion {what}: again in {wait:.0f} s", retry_after=wait)
    if code == "conflict_error":
        return Conflict(f"Notion could not save: {said}")
    if code == "unauthorized":
        # Not "token: ...": what follows that in a log is taken for a secret and masked.
        return Unauthorized(f"Notion refuses the token ({said}) Make a new one, or check which one is configured")
    if code == "restricted_resource":
        return Unauthorized(
            f"The connection may not do this: {said} Give it the capability it lacks (read, update, insert content; "
            "read and insert comments) in the connection's settings in Notion"
        )
    if code == "object_not_found":
        return Gone(f"Not found: {said}")
    if code == "validation_error":
        return _validation(said)
    if code in ("invalid_request_url", "missing_version"):
        return EndpointGone(
            f"Notion does not have this endpoint ({code}): {said} It was removed, or the API version that "
            "`connections:` names has it no more: look for a newer Hermes, or set `version:`"
        )
    if code in REFUSING_CODES or (status < 500 and code):
        return Fatal(f"Notion refuses the request ({code}): {said}")

    committed = extra.get("committed_resource_id") or envelope.get("committed_resource_id")
    if writes and isinstance(committed, str) and committed:
        return Committed(f"Notion answered {status} after it had saved", resource_id=committed)
    return _lost(f"Notion answered {status} ({code}): {said}", writes)


def _not_from_notion(status: int, headers: Mapping[str, str], body: str, *, writes: bool, now: datetime) -> SourceError:
    """An answer without Notion's envelope: something on the way, or a gateway in front of Notion, made it up."""
    title = re.search(r"<title[^>]*>([^<]{1,120})", body, re.IGNORECASE)
    page = f' (a page titled "{shorten(title.group(1), 80)}")' if title else ""
    if status in (429, 529):
        wait = retry_after_seconds(headers, now)
        text = f"A gateway limits our requests to Notion: again in {wait:.0f} s"
        # 529 is not below 500: without Notion's code it says nothing about a write.
        if status == 529 and writes:
            return StoppedUnknown(f"{text}; the write may have been made", retry_after=wait)
        return RateLimited(text, retry_after=wait)
    if status >= 500:
        return _lost(f"A gateway answered {status} instead of Notion{page}", writes)
    if 300 <= status < 400:
        return Misconfigured(f"Notion's address answers with a redirection ({status}): check base_url")
    return Retryable(
        f"Something between us and Notion answered {status}{page}: a proxy, a firewall or a wrong base_url. "
        "The token and the sharing of the board have nothing to do with it"
    )


_NO_COLUMN = (
    re.compile(r"Could not find (?:sort )?property with name or id: (?P<name>.+?)\.?$"),
    re.compile(r"(?P<name>.+?) is not a property that exists"),
)
_NO_OPTION = re.compile(r"(?:[Ss]tatus|[Ss]elect) option \"?(?P<name>.+?)\"? (?:does not exist|not found)")
_OTHER_TYPE = re.compile(r"does not match filter|is expected to be (?P<type>\w+)")
_IN_TRASH = re.compile(r"archived|in trash|in the trash|unarchive", re.IGNORECASE)
_OLD_VERSION = re.compile(r"Notion-Version header")
_OLD_CURSOR = re.compile(r"start_cursor|cursor .*(invalid|expired)", re.IGNORECASE)
_BAD_ID = re.compile(r"should be a valid uuid|is an? [\w ]+, not an? ")


def _validation(said: str) -> SourceError:
    if _OLD_VERSION.search(said):
        return VersionRetired(
            f"Notion does not speak the API version that we ask for: {said} Set `version:` of the connection to one "
            "that it names, or take a Hermes that knows it"
        )
    if _OLD_CURSOR.search(said):
        return CursorExpired(f"The listing must be begun anew: {said}")
    for pattern in _NO_COLUMN:
        if match := pattern.search(said):
            return SchemaRejected(f"The board has no column {match['name'].strip()!r} any more")
    if match := _NO_OPTION.search(said):
        return SchemaRejected(f"The board has no option {match['name'].strip()!r} any more")
    if _OTHER_TYPE.search(said):
        return SchemaRejected(f"A column has another type than before: {said}")
    if _IN_TRASH.search(said):
        return Gone(f"In the trash: {said}")
    if _BAD_ID.search(said):
        return Gone(f"No such id: {said}")
    return Fatal(f"Notion refuses the request: {said}")


def _lost(text: str, writes: bool) -> SourceError:
    return UnknownOutcome(f"{text}; the write may have been made") if writes else Retryable(text)


def _envelope(body: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and isinstance(parsed.get("code"), str) else None


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds to pause: a number or an HTTP date; what cannot be used counts as no hint."""
    raw = (headers.get("retry-after") or "").strip()
    try:
        seconds = float(raw)
    except ValueError:
        seconds = _until(raw, headers.get("date"), now)
    if not math.isfinite(seconds) or seconds < 0:
        seconds = NO_HINT_SECONDS
    return min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)


def _until(raw: str, answered: str | None, now: datetime) -> float:
    at = _http_date(raw)
    if at is None:
        return math.nan
    # Both by the other side's clock, so ours may be wrong.
    return max(0.0, (at - (_http_date(answered or "") or now)).total_seconds())


def _http_date(raw: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(raw)
    except (ValueError, TypeError, IndexError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def shorten(text: str, length: int = MESSAGE_LENGTH) -> str:
    """One line, safe for a log and a card."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= length else line[: length - 1] + "…"
