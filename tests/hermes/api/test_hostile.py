"""What strangers send. None of it is ever an accident in here (500), and none of it holds anything for long."""

from __future__ import annotations

import random
import socket
import string
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import hermes.api.guard
import hermes.api.reading
import hermes.api.server
from hermes.config.hermes_file import Api
from hermes.testing.trial import eventually

pytestmark = pytest.mark.sqlite_is_enough


def raw(served: Any, *parts: bytes) -> bytes:
    """The answer to exactly these bytes, until the other side closes or answers whole."""
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)) as connection:
        for part in parts:
            connection.sendall(part)
        return _answer(connection)


def _answer(connection: socket.socket) -> bytes:
    heard = b""
    while True:
        chunk = connection.recv(65536)
        heard += chunk
        head, _, body = heard.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")),
            None,
        )
        if not chunk or (length is not None and len(body) >= length):
            return heard


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def request(served: Any, line: bytes, *headers: bytes, key: str = "") -> bytes:
    host = b"Host: 127.0.0.1:%d" % served.port
    given = [host, *([b"Authorization: Bearer " + key.encode()] if key else []), *headers]
    return line + b" HTTP/1.1\r\n" + b"\r\n".join(given) + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"Host: 127.0.0.1", 200),
        (b"Host: localhost:1", 200),
        (b"Host: [::1]", 200),
        (b"Host: HERMES.example", 200),
        (b"Host: evil.example", 421),
        (b"Host: 127.0.0.1.evil.example", 421),
        (b"Host: evil.example@127.0.0.1:1", 421),
        (b"Host: [", 421),
        (b"Host: ", 421),
        (b"Host: localhost\r\nHost: localhost", 400),
        (b"X: y", 400),
    ],
)
def test_only_requests_for_our_own_names_are_answered(served: Any, host: bytes, expected: int) -> None:
    assert status(raw(served, b"GET /api/v1/health HTTP/1.1\r\n" + host + b"\r\n\r\n")) == expected


def test_every_answer_says_what_browsers_may_not_do_with_it(served: Any, key: str) -> None:
    for answer in (served.ask("GET", "/health"), served.ask("GET", "/nothing"), served.ask("POST", "/fire/A/1", key)):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = served.ask("OPTIONS", "/fire/A/1", headers={"Origin": "https://evil.example"})
    assert (asked.status_code, asked.json()["error"]["code"]) == (405, "no_such_method")


def test_health_needs_no_key_and_the_description_names_every_path(served: Any) -> None:
    assert served.ask("GET", "/health").json() == {"status": "ok"}
    paths = served.ask("GET", "/openapi.json").json()["paths"]
    assert sorted(paths) == [
        "/api/v1/fire/{name}/{instance_id}",
        "/api/v1/health",
        "/api/v1/runs",
        "/api/v1/runs/{key}",
        "/api/v1/runs/{key}/cancel",
        "/api/v1/runs/{key}/resume",
    ]
    assert served.http.get(f"{served.root}/docs").status_code == 404


@pytest.mark.parametrize(
    "line",
    [
        b"GET /api/v1/runs/%0d%0aSet-Cookie:%20a=b",
        b"GET /api/v1/runs/%00",
        b"GET /api/v1/runs/" + b"%F0%9F" * 50,
        b"GET /api/v1/runs/" + b"a" * 8_000,
        b"GET /api/v1/runs/..%2f..%2fetc%2fpasswd",
        b"GET /api/v1/runs/a?timeline=%00",
        b"GET /api/v1/runs/a?timeline=summary&timeline=x",
        b"GET http://evil.example/api/v1/health",
        b"GET //api/v1/health",
        b"GET *",
        b"POST /api/v1/fire/%2e%2e/x",
        b"POST /api/v1/runs/x/cancel/../resume",
        b"BREW /api/v1/fire/a/b",
        b"CONNECT 127.0.0.1:22",
        b"TRACE /api/v1/health",
    ],
)
def test_odd_request_lines_are_answered_calmly(served: Any, key: str, line: bytes) -> None:
    answer = raw(served, request(served, line, b"Content-Length: 0", key=key))
    assert 200 <= status(answer) < 500, answer
    assert b"Set-Cookie" not in answer.partition(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [
        (b"Content-Length: -1",),
        (b"Content-Length: 99999999999999999999999",),
        (b"Content-Length: 1", b"Content-Length: 2"),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: gzip",),
        (b"Hermes-Namespace: \xff\xfe", b"Content-Length: 0"),
        (b"Idempotency-Key: \xff\xfe\x80", b"Content-Length: 0"),
        (b"Idempotency-Key: " + b"k" * 5_000, b"Content-Length: 0"),
        (b"Hermes-Event-TTL: " + b"9" * 400 + b"d", b"Content-Length: 0"),
        (b"Authorization: Bearer", b"Content-Length: 0"),
        (b"X: " + b"y" * 100_000, b"Content-Length: 0"),
        (b"Expect: 100-continue", b"Content-Length: 99999"),
        (b"Upgrade: websocket", b"Connection: Upgrade", b"Content-Length: 0"),
    ],
)
def test_odd_headers_are_answered_calmly(served: Any, key: str, headers: tuple[bytes, ...]) -> None:
    answer = raw(served, request(served, b"POST /api/v1/fire/A/1", *headers, key=key))
    assert 200 <= status(answer) < 500, answer


def noise(seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    letters = string.printable.encode() + bytes(range(256))
    for _ in range(150):
        yield bytes(chance.choice(letters) for _ in range(chance.randrange(1, 200)))


def test_noise_as_path_header_and_body_is_never_an_accident(served: Any, key: str) -> None:
    odd = []
    for seed, piece in enumerate(noise(7)):
        path = "".join(f"%{byte:02X}" for byte in piece[:60])
        answers = [
            served.ask("POST", f"/fire/{path}/{path}", key, piece),
            served.ask("POST", "/runs", key, piece),
            served.ask("GET", f"/runs/{path}", key),
        ]
        value = bytes(byte for byte in piece if byte >= 0x20 and byte != 0x7F).strip()
        for name in (b"Idempotency-Key", b"Hermes-Namespace", b"Hermes-Event-TTL", b"Content-Type"):
            sent = request(
                served, b"POST /api/v1/fire/A/%d" % seed, name + b": " + value, b"Content-Length: 2", key=key
            )
            odd.append(status(raw(served, sent, b"{}")))
        odd += [answer.status_code for answer in answers]
    assert {code for code in odd if code >= 500 or code < 200} == set()


def test_a_slow_body_is_given_up(served: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hermes.api.reading, "BODY_SECONDS", 0.2)
    head = request(served, b"POST /api/v1/fire/A/1", b"Content-Length: 100", b"Content-Type: application/json", key=key)
    answer = raw(served, head, b"{")
    assert status(answer) == 408
    assert b"too_slow" in answer
    assert served.events() == []


def test_a_request_that_never_comes_and_a_body_that_never_ends_are_hung_up_on(
    served: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes.api.server, "REQUEST_SECONDS", 0.3)
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)) as silent:
        silent.sendall(b"GET /api/v1/hea")
        assert silent.recv(100) == b""
    head = request(served, b"POST /api/v1/fire/A/1", b"Content-Length: 1000000", key="")
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)) as endless:
        endless.sendall(head)
        assert status(_answer(endless)) == 401, "answered before the body"
        assert endless.recv(100) == b"", "and not listened to for ever"


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(served: Any, key: str) -> None:
    for length in (b"10001", b"99999999999999999999", b"9" * 60):
        head = request(served, b"POST /api/v1/fire/A/1", b"Content-Length: " + length, key=key)
        answer = raw(served, head)
        assert status(answer) in ((413,) if len(length) < 21 else (413, 400)), answer


def test_a_body_of_nobody_is_not_read(served: Any) -> None:
    head = request(served, b"POST /api/v1/fire/A/1", b"Content-Length: 1000000000")
    assert status(raw(served, head)) == 401


def test_above_the_bound_requests_are_told_to_come_again(
    served: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = request(served, b"POST /api/v1/fire/A/1", b"Content-Length: 2", b"Content-Type: application/json", key=key)
    monkeypatch.setattr(hermes.api.guard, "MOST_AT_ONCE", 1)

    def refused() -> Any:
        answer = served.ask("GET", "/health")
        return answer if answer.status_code != 200 else None

    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)) as first:
        first.sendall(head + b"{")
        busy = eventually("the first is under way", refused)
        assert (busy.status_code, busy.json()["error"]["code"], busy.headers["Retry-After"]) == (429, "busy", "1")
        first.sendall(b"}")
        assert status(_answer(first)) == 202
    eventually("it is over", lambda: served.ask("GET", "/health").status_code == 200)
    assert len(served.events()) == 1


def test_connections_above_the_bound_are_told_to_come_again(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served.http.close()
    monkeypatch.setattr(hermes.api.server, "MOST_CONNECTIONS", 1)
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=30)) as first:
        first.sendall(request(served, b"GET /api/v1/health"))
        assert status(_answer(first)) == 200
        refused = raw(served)
        assert status(refused) == 429
        assert refused.endswith(b"}")
        assert b"Content-Length: %d\r\n" % len(refused.partition(b"\r\n\r\n")[2]) in refused


def test_the_api_listens_on_this_machine_unless_told_otherwise() -> None:
    assert Api().host == "127.0.0.1"
