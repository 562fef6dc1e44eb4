"""Between a process and the board: requests and answers that take their time, without a socket. What has left a process
arrives, whatever becomes of the process or of its patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from simulation.schedule import Schedule
from starlette.requests import Request
from starlette.responses import Response

import sources.notion.client
from sources.board.dispatch import Dispatcher, Dropped, Trickle
from sources.board.ids import PERSON_TOKEN

LONGEST_WAY = 6.0
"""Seconds of a request to the board; with the longest ghost it stays below the wait-out."""
MEDIA = {"content-type": "application/json"}


class Network:
    def __init__(self, schedule: Schedule, dispatcher: Dispatcher) -> None:
        self.schedule = schedule
        self.dispatcher = dispatcher
        self.slow = 0.0
        """Share of requests and answers that take seconds."""
        self.under_way = 0
        self._loop = _Loop(schedule)
        self._patience = 0.0
        sources.notion.client.total_deadline = self._deadline  # type: ignore[assignment]

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """In place of the one that counts real seconds."""
        self._patience = seconds
        yield

    def travel(self) -> float:
        random = self.schedule.random
        return random.uniform(1.0, LONGEST_WAY) if random.random() < self.slow else random.uniform(0.01, 0.3)

    def transport(self) -> httpx.BaseTransport:
        return _Transport(self)

    def exchange(self, request: httpx.Request) -> httpx.Response:
        ends_at = self.schedule.now + self._patience
        box: list[Response | None] = []
        content, there, back = request.read(), self.travel(), self.travel()
        self.under_way += 1

        caller = self.schedule.current

        def answered(response: Response | None) -> None:
            self.under_way -= 1
            box.append(response)
            if caller is not None:
                caller.wake_at = min(caller.wake_at, self.schedule.now)

        self.schedule.after(there, lambda: self.serve(request, content, answered))
        what = f"{request.method} {request.url.path[-40:]}"
        self.schedule.pause(max(0.0, ends_at - self.schedule.now), what)
        if not box:
            raise httpx.ReadTimeout("timed out", request=request)
        response = box[0]
        if response is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        if isinstance(response, Trickle):
            back += response._seconds * len(response.body)
        if self.schedule.now + back > ends_at:
            self.schedule.pause(max(0.0, ends_at - self.schedule.now), f"{what}: nothing")
            raise httpx.ReadTimeout("timed out", request=request)
        self.schedule.pause(back, f"{what}: {response.status_code}")
        return httpx.Response(response.status_code, headers=response.headers, content=bytes(response.body))

    def serve(self, request: httpx.Request, content: bytes, answered: Callable[[Response | None], None]) -> None:
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "raw_path": request.url.raw_path,
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": "http",
            "server": ("board", 80),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        def told(response: Response | None) -> None:
            self.schedule.note(
                "board", f"{request.method} {request.url.path[-40:]} {response and response.status_code}"
            )
            answered(response)

        self._drive(self.dispatcher(Request(scope, receive)), told)

    def _drive(self, handling: Coroutine[Any, Any, Response], told: Callable[[Response | None], None]) -> None:
        asyncio._set_running_loop(self._loop)
        try:
            awaited = handling.send(None)
        except StopIteration as stop:
            told(stop.value)
            return
        except Dropped:
            told(None)
            return
        finally:
            asyncio._set_running_loop(None)
        awaited._asyncio_future_blocking = False
        awaited.add_done_callback(lambda _: self._drive(handling, told))

    def person(self, method: str, path: str, body: object = None) -> Any:
        """At once and without faults: people use the app."""
        headers = {"authorization": f"Bearer {PERSON_TOKEN}", "notion-version": "2026-03-11"}
        request = httpx.Request(method, f"http://board/v1/{path}", json=body, headers=headers)
        box: list[Response | None] = []
        self.serve(request, request.read(), box.append)
        response = httpx.Response(box[0].status_code, content=bytes(box[0].body)) if box and box[0] else None
        assert response is not None, "people are answered"
        assert response.status_code == 200, response.text
        return response.json()


class _Transport(httpx.BaseTransport):
    def __init__(self, network: Network) -> None:
        self._network = network

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._network.exchange(request)


class _Loop(asyncio.AbstractEventLoop):
    """As much of a loop as the board's faults need: a future, and something later."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        return self.call_later(0.0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        self._schedule.after(delay, lambda: callback(*args) and None)
        return _Handle()


class _Handle:
    def cancel(self) -> None:
        """Of a sleep that is over: nothing to do."""
