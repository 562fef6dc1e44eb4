"""A recording effect service: the oracle of tests about effects, in a process and a file of its own, knowing no Hermes.

    POST /keyed/<name>       a change, once for each Idempotency-Key; a repeat gets the receipt of the first
    POST /checkable/<name>   a change at every request; GET /checkable/<name>?key=... tells whether that key made one
    POST /naive/<name>       a change at every request, and nobody can ask

`?before=S` and `?after=S` make a request slow before or after it is recorded. Every request is one line of the log, on
the disk before its answer is sent; a restart reads the log and goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

CLASSES = ("keyed", "checkable", "naive")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as the service saw it."""

    receipt: str
    at: float
    """Seconds since 1970, when it was recorded."""
    service: str
    """keyed, checkable or naive."""
    name: str
    key: str
    body: Any
    changed: bool
    """Whether it made the change; false for a suppressed repeat and for a look-up."""
    looked_up: bool = False


def read_log(path: Path) -> list[Recorded]:
    """What was recorded up to now. A line that is being written is left for the next time."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [Recorded(**json.loads(line)) for line in lines[:-1]]


def changes_by_key(log: Iterable[Recorded]) -> Counter[str]:
    return Counter(entry.key for entry in log if entry.changed)


def requests_by_key(log: Iterable[Recorded]) -> Counter[str]:
    return Counter(entry.key for entry in log if not entry.looked_up)


class Recorder:
    """The service without its HTTP."""

    def __init__(self, path: Path) -> None:
        self._mutex = threading.Lock()
        self._first: dict[tuple[str, str, str], str] = {}
        self._count = 0
        for entry in read_log(path):
            self._remember(entry)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def change(self, service: str, name: str, key: str, body: Any) -> Recorded:
        with self._mutex:
            first = self._first.get((service, name, key))
            repeats = service == "keyed" and first is not None
            receipt = first if repeats and first is not None else f"{service}-{self._count + 1}"
            return self._record(Recorded(receipt, time.time(), service, name, key, body, changed=not repeats))

    def look_up(self, service: str, name: str, key: str) -> str | None:
        with self._mutex:
            receipt = self._first.get((service, name, key))
            self._record(Recorded(receipt or "", time.time(), service, name, key, None, changed=False, looked_up=True))
            return receipt

    def _record(self, entry: Recorded) -> Recorded:
        os.write(self._file, (json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode())
        os.fsync(self._file)
        self._remember(entry)
        return entry

    def _remember(self, entry: Recorded) -> None:
        self._count += 1
        if entry.changed:
            self._first.setdefault((entry.service, entry.name, entry.key), entry.receipt)


def serve(path: Path, port: int) -> None:
    """On the loopback address, until the process is ended."""
    recorder = Recorder(path)

    class Handler(_Handler):
        service = recorder

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    service: Recorder
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def do_POST(self) -> None:
        path, query = self._target()
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if len(path) != 2 or path[0] not in CLASSES:
            return self._answer(404, {"error": "POST /keyed/NAME, /checkable/NAME or /naive/NAME"})
        time.sleep(float(query.get("before", "0")))
        key = self.headers.get("Idempotency-Key", "")
        entry = self.service.change(path[0], path[1], key, json.loads(raw) if raw else None)
        time.sleep(float(query.get("after", "0")))
        return self._answer(200, {"receipt": entry.receipt, "changed": entry.changed})

    def do_GET(self) -> None:
        path, query = self._target()
        if path == [""]:
            return self._answer(200, {"recorder": True})
        if len(path) != 2 or path[0] != "checkable":
            return self._answer(404, {"error": "only /checkable/NAME?key=... can be asked"})
        receipt = self.service.look_up(path[0], path[1], query.get("key", ""))
        if receipt is None:
            return self._answer(404, {"error": "no change was made under that key"})
        return self._answer(200, {"receipt": receipt})

    def _target(self) -> tuple[list[str], dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path.strip("/").split("/"), {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """The log is the file."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="recorder", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args(arguments)
    serve(chosen.log, chosen.port)


if __name__ == "__main__":
    main(sys.argv[1:])
