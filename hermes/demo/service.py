"""The outside world of the demo: a small office service in a process of its own, with a log of its own.

It fails as services do. Every request and its answer is one line of JSON in the log, which is also its memory: a key
that it has seen gets the answer it got then, and `effect` says whether anything really happened. Knows nothing of
Hermes but the `Idempotency-Key` header.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hermes.clock import SystemClock

ROUTES = ("/invoices", "/reminders", "/reports")
CLOSED_CUSTOMER = "4711"
"""Never gets an invoice: a refusal of business, the same however often one asks."""
OVERLOADED, OVERLOADED_CALLS = "Invoice 1002", 2
"""The service is down for the first calls about this one."""
LOST_ANSWER = "Invoice 1005"
"""The first call about this one takes effect, and then the connection breaks before the answer."""


class Office:
    """What the service knows: everything it has logged."""

    def __init__(self, log: Path) -> None:
        self._clock = SystemClock()
        self._mutex = threading.Lock()
        self._answers: dict[str, tuple[int, dict[str, Any]]] = {}
        self._calls: dict[str, int] = {}
        if log.exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                self._remember(json.loads(line))
        self._log = log.open("a", encoding="utf-8")

    def close(self) -> None:
        self._log.close()

    def _remember(self, entry: dict[str, Any]) -> None:
        self._calls[entry["subject"]] = self._calls.get(entry["subject"], 0) + 1
        if entry["status"] < 500:
            self._answers[entry["key"]] = (entry["status"], entry["answer"])

    def call(self, route: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any], bool]:
        """(status, answer, whether the caller gets to hear it)."""
        subject = str(body["subject"])
        with self._mutex:
            known = self._answers.get(key)
            first = subject not in self._calls
            if known is not None:
                status, answer = known
            elif subject == OVERLOADED and self._calls.get(subject, 0) < OVERLOADED_CALLS:
                status, answer = 503, {"error": "the office is overloaded, come back later"}
            elif route == "/invoices" and body.get("customer") == CLOSED_CUSTOMER:
                status, answer = 422, {"error": f"customer {CLOSED_CUSTOMER} has closed their account"}
            else:
                status, answer = 201, {"number": f"{route[1:2].upper()}-{len(self._answers) + 1:04}"}
            heard = not (first and subject == LOST_ANSWER)
            entry = {
                "at": self._clock.now().isoformat(timespec="milliseconds"),
                "route": route,
                "key": key,
                "subject": subject,
                "status": status,
                "effect": status == 201 and known is None,
                "replayed": known is not None,
                "heard": heard,
                "characters": len(str(body.get("text", ""))),
                "answer": answer,
            }
            self._remember(entry)
            self._log.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._log.flush()
        return status, answer, heard


def handler_for(office: Office) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(200, {"service": "demo office"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers.get("Idempotency-Key")
            if self.path not in ROUTES or not key:
                self._say(400, {"error": "no such route, or no Idempotency-Key"})
                return
            status, answer, heard = office.call(self.path, key, body)
            if heard:
                self._say(status, answer)
            else:
                self.close_connection = True

        def _say(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """The log is the office's own."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()
    office = Office(options.log)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler_for(office))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until whoever started it is gone
    server.shutdown()
    office.close()


if __name__ == "__main__":
    main()
