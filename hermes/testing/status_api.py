"""An outside that works slowly and cannot be relied on: a small batch system, in a thread or a process of its own. It
knows no Hermes but the address to which it sends its webhooks.

    POST   /batches                    begins a batch: {"about": ...}; once for each Idempotency-Key
    GET    /batches/<receipt>          {"receipt", "about", "state"}: working, then settled
    PUT    /<kind>/<reference>         reserves one; 409 where the kind is sold out, or the reference was released
    DELETE /<kind>/<reference>         releases it; 404 where nothing was reserved
    GET    /                           that it is there

What it does wrong follows from its plan: how often it answers 503, which batches never settle, which webhooks are lost
or late. All of it is drawn from the seed and from what the batch is about, so a test can say beforehand what will be.
Every call is one entry of the log, in a process one line of a file, written before its answer is sent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from hermes.clock import Clock, SystemClock

LOOK_EVERY = 0.02
"""Seconds between two looks for webhooks that are due."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What will become of a batch."""

    settles: bool
    webhook: Literal["sent", "late", "lost"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Shares are from 0 to 1, times in seconds after the beginning of a batch."""

    seed: int = 1
    unavailable: float = 0.0
    """Of all calls that are answered 503."""
    never: float = 0.0
    """Of the batches that are never settled."""
    lost: float = 0.0
    """Of the webhooks that are never sent."""
    late: float = 0.0
    """Of the webhooks that come late."""
    settles_after: float = 60.0
    late_by: float = 300.0
    sold_out: str = ""
    """The kind of which nothing is left."""

    def fate(self, about: str) -> Fate:
        drawn = self._draw(about, "webhook")
        webhook: Literal["sent", "late", "lost"] = "sent"
        if drawn < self.lost + self.late:
            webhook = "lost" if drawn < self.lost else "late"
        return Fate(self._draw(about, "settles") >= self.never, webhook)

    def is_unavailable(self, about: str, call: int) -> bool:
        """For the `call`-th call about this."""
        return self._draw(about, "call", call) < self.unavailable

    def _draw(self, *what: object) -> float:
        digest = hashlib.sha256("\x00".join(map(str, (self.seed, *what))).encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True, slots=True)
class Call:
    """What came, or for a webhook what went, and what became of it."""

    at: float
    """Seconds since 1970."""
    what: str
    """begin, ask, webhook, reserve or release."""
    about: str
    receipt: str
    key: str
    status: int
    """Of the answer; of a webhook that nobody took, 0."""
    state: str
    """Of the batch, as it was told; empty where it was not."""
    changed: bool = False
    """Something was begun, reserved or released by this very call."""


@dataclass(slots=True)
class _Batch:
    receipt: str
    about: str
    began_at: float
    notified: bool = False


def read_log(path: Path) -> list[Call]:
    """What was recorded up to now. A line that is being written is left for the next time."""
    if not path.exists():
        return []
    return [Call(**json.loads(line)) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def asked_at(log: Iterable[Call], about: str) -> list[float]:
    """When somebody asked for the state of it, answered or not."""
    return [call.at for call in log if call.what == "ask" and call.about == about]


class StatusApi:
    """The system without its HTTP. `webhook`: where its news go; `{receipt}` in it stands for that of the batch."""

    def __init__(
        self, plan: Plan, clock: Clock, log: Path | None = None, *, webhook: str = "", token: str = ""
    ) -> None:
        self.plan = plan
        self.calls: list[Call] = []
        self._clock = clock
        self._webhook = webhook
        self._token = token
        self._mutex = threading.Lock()
        self._batches: dict[str, _Batch] = {}
        self._by_key: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._reserved: dict[str, bool] = {}
        """By kind and reference; False once it is released."""
        self._file = None if log is None else os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    # -- what is asked of it

    def begin(self, key: str, about: str) -> Call:
        with self._mutex:
            if self._is_unavailable(about):
                return self._record("begin", about, "", key, 503, "")
            known = self._by_key.get(key)
            if known is not None:
                return self._record("begin", about, known, key, 200, self._state(self._batches[known]))
            receipt = f"b{len(self._batches) + 1}"
            self._by_key[key] = receipt
            self._batches[receipt] = _Batch(receipt, about, self._now())
            return self._record("begin", about, receipt, key, 201, "working", changed=True)

    def ask(self, receipt: str) -> Call:
        with self._mutex:
            batch = self._batches.get(receipt)
            if batch is None:
                return self._record("ask", "", receipt, "", 404, "")
            if self._is_unavailable(batch.about):
                return self._record("ask", batch.about, receipt, "", 503, "")
            return self._record("ask", batch.about, receipt, "", 200, self._state(batch))

    def reserve(self, key: str, kind: str, reference: str) -> Call:
        about = f"{kind}/{reference}"
        with self._mutex:
            if self._is_unavailable(about):
                return self._record("reserve", about, "", key, 503, "")
            if kind == self.plan.sold_out or self._reserved.get(about) is False:
                return self._record("reserve", about, "", key, 409, "refused")
            changed = about not in self._reserved
            self._reserved[about] = True
            return self._record("reserve", about, "", key, 201, "reserved", changed=changed)

    def release(self, key: str, kind: str, reference: str) -> Call:
        about = f"{kind}/{reference}"
        with self._mutex:
            if self._is_unavailable(about):
                return self._record("release", about, "", key, 503, "")
            changed = self._reserved.get(about) is True
            known = about in self._reserved
            self._reserved[about] = False  # a reservation that is still on its way comes too late
            return self._record("release", about, "", key, 200 if known else 404, "released", changed=changed)

    def reserved(self) -> set[str]:
        with self._mutex:
            return {about for about, held in self._reserved.items() if held}

    # -- what it says by itself

    def send_webhooks(self) -> int:
        """Those that are due, each tried once. Returns how many went out."""
        with self._mutex:
            due = [batch for batch in self._batches.values() if self._owes(batch)]
            for batch in due:
                batch.notified = True
        for batch in due:
            status = self._post(batch)
            with self._mutex:
                self._record("webhook", batch.about, batch.receipt, "", status, "settled")
        return len(due)

    def _owes(self, batch: _Batch) -> bool:
        fate = self.plan.fate(batch.about)
        if not self._webhook or batch.notified or fate.webhook == "lost" or self._state(batch) != "settled":
            return False
        late = self.plan.late_by if fate.webhook == "late" else 0.0
        return self._now() >= batch.began_at + self.plan.settles_after + late

    def _post(self, batch: _Batch) -> int:
        news = json.dumps({"receipt": batch.receipt, "about": batch.about, "state": "settled"}).encode()
        url = self._webhook.replace("{receipt}", quote(batch.receipt, safe=""))
        request = urllib.request.Request(url, news, method="POST")  # noqa: S310 - the test's own address
        request.add_header("Content-Type", "application/json")
        request.add_header("Idempotency-Key", f"{batch.receipt}-settled")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
                return int(answer.status)
        except OSError as error:  # refused, reset, or answered badly: it is not sent again
            return int(getattr(error, "code", 0))

    # -- inside

    def _state(self, batch: _Batch) -> str:
        over = self._now() >= batch.began_at + self.plan.settles_after
        return "settled" if over and self.plan.fate(batch.about).settles else "working"

    def _is_unavailable(self, about: str) -> bool:
        self._counts[about] += 1
        return self.plan.is_unavailable(about, self._counts[about])

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _record(
        self, what: str, about: str, receipt: str, key: str, status: int, state: str, *, changed: bool = False
    ) -> Call:
        call = Call(self._now(), what, about, receipt, key, status, state, changed)
        if self._file is not None:
            os.write(self._file, (json.dumps(asdict(call), ensure_ascii=False) + "\n").encode())
        self.calls.append(call)
        return call


class Served:
    """Over HTTP on the loopback address, from threads of this process. Webhooks go out by themselves only when `ticks`:
    who moves a clock by hand calls `send_webhooks`."""

    def __init__(self, api: StatusApi, port: int = 0, *, ticks: bool = False) -> None:
        class Handler(_Handler):
            service = api

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._over = threading.Event()
        self._api = api
        loops = [self._server.serve_forever, *([self._tick] if ticks else [])]
        self._threads = [threading.Thread(target=loop, name="status-api", daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait(self) -> None:
        """For ever."""
        self._over.wait()

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join(10)
        self._server.server_close()

    def _tick(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            self._api.send_webhooks()


class _Handler(BaseHTTPRequestHandler):
    service: StatusApi
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("Idempotency-Key", "")
        match self.path.strip("/").split("/"):
            case ["batches"]:
                self._tell(self.service.begin(key, str(json.loads(raw)["about"])))
            case _:
                self._answer(404, {"error": "POST /batches"})

    def do_PUT(self) -> None:
        self._reservation(self.service.reserve)

    def do_DELETE(self) -> None:
        self._reservation(self.service.release)

    def _reservation(self, change: Callable[[str, str, str], Call]) -> None:
        match self.path.strip("/").split("/"):
            case [kind, reference]:
                self._tell(change(self.headers.get("Idempotency-Key", ""), kind, reference))
            case _:
                self._answer(404, {"error": "PUT or DELETE /KIND/REFERENCE"})

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case [""]:
                self._answer(200, {"status api": True})
            case ["batches", receipt]:
                self._tell(self.service.ask(receipt))
            case _:
                self._answer(404, {"error": "GET /batches/RECEIPT"})

    def _tell(self, call: Call) -> None:
        if call.status >= 400:
            why = {503: "unavailable", 409: "refused"}.get(call.status, "there is none")
            return self._answer(call.status, {"error": why})
        return self._answer(call.status, {"receipt": call.receipt, "about": call.about, "state": call.state})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """The log is its own."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="status_api", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--webhook", default="", help="URL; {receipt} stands for that of the batch")
    parser.add_argument("--token", default="", help="of its Authorization header")
    parser.add_argument("--plan", default="{}", help=f"JSON: {', '.join(field.name for field in fields(Plan))}")
    chosen = parser.parse_args(arguments)
    api = StatusApi(
        Plan(**json.loads(chosen.plan)), SystemClock(), chosen.log, webhook=chosen.webhook, token=chosen.token
    )
    Served(api, chosen.port, ticks=True).wait()


if __name__ == "__main__":
    main(sys.argv[1:])
