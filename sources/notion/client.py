"""The official notion-client with our policy around it: limiter, total deadline, short retries of reads, errors sorted.

Nothing but `hermes.errors` leaves this module, and the token never stands in anything it raises or prints.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import httpx
import notion_client
import tenacity

from hermes.clock import Clock, SystemClock
from hermes.errors import Retryable, SourceError, UnknownOutcome
from hermes.ports.breaker import Breaker
from hermes.ports.limiter import Limiter
from sources.notion.answers import (
    Blocked,
    EndpointGone,
    RateLimited,
    StoppedUnknown,
    refuse_odd_answer,
    translate,
)
from sources.notion.config import NotionConnection
from sources.notion.deadline import enforce_deadlines, total_deadline
from sources.notion.patience import READ_ATTEMPTS, RetryBudget, wait, worth_another_read
from sources.notion.skew import Skew

IDLE_SECONDS = 3.0
"""A connection is not used again after resting this long: a server that closes it meanwhile would turn a write into one
of unknown outcome. uvicorn closes after 5 s."""

_ID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")

_log = logging.getLogger("hermes.notion.client")  # notion-client logs whole bodies: none of it is printed
_log.addHandler(logging.NullHandler())
_log.propagate = False


class NotionClient:
    """One credential. Safe to share between threads."""

    def __init__(
        self,
        connection: NotionConnection,
        limiter: Limiter,
        *,
        name: str = "notion",
        clock: Clock | None = None,
        breaker: Breaker | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.connection = connection
        self.name = name
        self._limiter = limiter
        self._clock = clock or SystemClock()
        self._breaker = breaker
        self._retries = RetryBudget()
        self._skew = Skew(self._clock.now)
        http = httpx.Client(
            auth=_Bearer(connection),
            event_hooks={"request": [self._skew.sent], "response": [self._skew.received]},
            transport=transport,
            verify=connection.url.startswith("https:"),  # reading the certificates takes longer than a whole start
            trust_env=not connection.local,  # a proxy of the company has no way to this machine
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=10, keepalive_expiry=IDLE_SECONDS),
        )
        self._http = enforce_deadlines(http)
        # The token is not given to the SDK: its options print it.
        self._notion = notion_client.Client(
            client=http,
            base_url=connection.url,
            notion_version=connection.version,
            timeout_ms=int(connection.timeout_seconds * 1000),
            retry=False,
            logger=_log,
            log_level=logging.CRITICAL,
        )

    def read(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        urgent: bool = False,
    ) -> dict[str, Any]:
        """A request that changes nothing, tried up to three times within one deadline and a budget of such tries."""
        ends_at = self._clock.boot_seconds() + self.connection.timeout_seconds

        def once() -> dict[str, Any]:
            left = ends_at - self._clock.boot_seconds()
            return self._send(method, path, query, body, writes=False, urgent=urgent, seconds=max(left, 0.001))

        def enough(state: tenacity.RetryCallState) -> bool:
            over = self._clock.boot_seconds() + state.upcoming_sleep >= ends_at
            return over or state.attempt_number >= READ_ATTEMPTS or not self._retries.spend()

        self._retries.earn()
        retrying = tenacity.Retrying(
            stop=enough,
            wait=wait,
            retry=tenacity.retry_if_exception(worth_another_read),
            sleep=self._clock.sleep,
            reraise=True,
        )
        answer: dict[str, Any] = retrying(once)
        return answer

    def write(
        self, method: str, path: str, body: dict[str, Any], *, urgent: bool = False, send_by: float | None = None
    ) -> dict[str, Any]:
        """A request that changes something: sent once, and not after `send_by` (boot seconds)."""
        # What is not answered within the wait-out is over: others write the page when as long again has passed.
        wait_out = self.connection.protocol_times.wait_out.total_seconds()
        seconds = min(self.connection.timeout_seconds, wait_out)
        return self._send(method, path, None, body, writes=True, urgent=urgent, seconds=seconds, send_by=send_by)

    def pages(
        self, method: str, path: str, query: dict[str, Any], *, limit: int = 100
    ) -> Generator[dict[str, Any], None, None]:
        """Every answer of a paged listing. A read with a body (a query) carries its cursor there."""
        asked = dict(query)
        for _ in range(limit):
            as_body = method == "POST"
            answer = self.read(method, path, query=None if as_body else asked, body=asked if as_body else None)
            yield answer
            cursor = answer.get("next_cursor")
            if not answer.get("has_more") or not cursor:
                return
            if cursor == asked.get("start_cursor"):
                raise Retryable("Notion's listing does not move on: the same cursor came twice")
            asked = {**asked, "start_cursor": cursor}

    def whoami(self) -> dict[str, Any]:
        """The bot user behind the token."""
        return self.read("GET", "users/me")

    @property
    def skew(self) -> timedelta | None:
        """How far Notion's clock is ahead of ours, by its last answers; None before the first."""
        return self._skew.value

    def close(self) -> None:
        self._http.close()

    def __repr__(self) -> str:
        return f"NotionClient({self.name!r}, {self.connection.url!r})"

    def _send(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None,
        body: dict[str, Any] | None,
        *,
        writes: bool,
        urgent: bool,
        seconds: float,
        send_by: float | None = None,
    ) -> dict[str, Any]:
        endpoint = f"{method} {_ID.sub('{id}', path)}"
        self._limiter.acquire(urgent=urgent)
        if send_by is not None and self._clock.boot_seconds() > send_by:
            raise Retryable("not sent: it had to wait for too long, and somebody else may have the card by now")
        if self._breaker is not None:
            self._breaker.admit(endpoint)
        try:
            with total_deadline(seconds):
                answer = self._notion.request(path=path, method=method, query=query, body=body)
            whole = refuse_odd_answer(method, path, answer, writes=writes)
        except Exception as exc:  # noqa: BLE001 - the SDK lets anything through; all of it is sorted here
            error = self._sorted(exc, writes)
            self._learn(endpoint, error)
            # The cause holds the answer's body; `from None` keeps it out of every traceback.
            raise error from None
        self._learn(endpoint, None)
        return whole

    def _sorted(self, exc: Exception, writes: bool) -> SourceError:
        if isinstance(exc, SourceError):
            return exc
        error = translate(exc, writes=writes, now=self._clock.now(), scrub=self._scrub)
        if isinstance(error, RateLimited | StoppedUnknown | Blocked):
            self._limiter.pause(error.retry_after, str(error))
        return error

    def _learn(self, endpoint: str, error: SourceError | None) -> None:
        if self._breaker is None:
            return
        permanent = isinstance(error, EndpointGone)
        if permanent or isinstance(error, UnknownOutcome) or type(error) is Retryable:
            assert error is not None  # noqa: S101 - none of these
            self._breaker.failed(endpoint, error, permanent=permanent)
        else:  # a refusal is an answer: of a limit, a conflict, one object
            self._breaker.answered(endpoint)

    def _scrub(self, text: str) -> str:
        return text.replace(self.connection.bearer, "[token]")


class _Bearer(httpx.Auth):
    def __init__(self, connection: NotionConnection) -> None:
        self._connection = connection

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._connection.bearer}"
        yield request
