"""No secret in any line, however it got there (THREATS.md T5), and nothing a terminal obeys (T24)."""

from __future__ import annotations

import base64
import io
import json
import logging
import time
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from hermes.telemetry.logs import bind, claim_id, configure_logs
from hermes.telemetry.redaction import MASK, Redactor

CANARIES = [
    "ntn_12345678901234567890",
    "plainpassword",
    "p@ss/word with spaces",
    "kluč-s-háčkem",
    "line1\nline2-secret",
    'quote"and\\slash',
    "slack://tokenA/tokenB/tokenC",
    "A" * 64,
]


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def lines():
    """Configured logging; returns what was written."""

    def configured(format="json", secrets=CANARIES, level="info"):
        stream = io.StringIO()
        configure_logs(Redactor(secrets), format=format, level=level, stream=stream)
        return stream

    return configured


class Client:
    """As an SDK's client whose repr tells all."""

    def __init__(self, token):
        self.token = token

    def __repr__(self):
        return f"Client(token={self.token!r})"


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("secret", CANARIES)
def test_a_known_secret_is_nowhere_however_it_is_logged(lines, format, secret):
    stream = lines(format)
    log = structlog.get_logger()
    log.info(f"using {secret}", plain=secret, listed=[secret], deep={"a": {"b": (secret, {"c": secret})}})
    log.info("object", client=Client(secret), raw=secret.encode(), **{f"key-{secret}": 1})
    log.info("encoded", url=quote(secret, safe=""), b64=base64.b64encode(secret.encode()).decode(), shown=repr(secret))
    log.info("inside", header=base64.b64encode(f"user:{secret}".encode()).decode())
    log.info("%s and %s", "a", secret)
    with bind(run_id=secret):
        log.warning("bound")
    try:
        raise RuntimeError(f"call with {secret} failed", Client(secret))
    except RuntimeError:
        log.exception("failed")
    try:
        try:
            raise ValueError(secret)
        except ValueError as exc:
            raise RuntimeError("outer") from exc
    except RuntimeError as exc:
        log.error("chained", exc_info=exc)
    log.info("stack", stack_info=True)
    logging.getLogger("some.library").warning("token is %s", secret)
    logging.getLogger("some.library").error("with trace", exc_info=RuntimeError(secret))
    text = stream.getvalue()
    assert MASK in text
    for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode(), repr(secret)[1:-1]):
        assert form not in text
        assert json.dumps(form, ensure_ascii=False)[1:-1] not in text
    assert base64.b64encode(f"user:{secret}".encode()).decode() not in text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("token ntn_abcdef123456", "ntn_abcdef123456"),
        ("token secret_abcdef123456", "secret_abcdef123456"),
        ("key sk-proj-abcdef123456", "abcdef123456"),
        ("postgresql+psycopg://hermes:hunter2@db:5432/hermes", "hunter2"),
        ("https://user:hunter2@host/path", "hunter2"),
        ("GET /x?access_token=hunter2hunter2&y=1", "hunter2"),
        ('{"password": "hunter2"}', "hunter2"),
        ("{'api_key': 'hunter2'}", "hunter2"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.sflKxwRJSM", "sflKxwRJSM"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("xoxb-123456789012-abcdef", "abcdef"),
        ("ghp_abcdefghijklmnop1234", "abcdefghijklmnop"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_though_nobody_knew_it(text, hidden):
    assert hidden not in Redactor().text(f"before {text} after")


@pytest.mark.parametrize(
    "key", ["token", "notion_token", "password", "api_key", "apikey", "authorization", "Cookie", "client_secret"]
)
def test_values_under_a_telling_key_are_hidden(key):
    assert Redactor().value({key: "x"}) == {key: MASK}
    assert Redactor().value({"headers": {key: ["x"]}}) == {"headers": {key: MASK}}


@pytest.mark.parametrize(
    "text",
    [
        "poll tasks ran",
        "https://www.notion.so/Team-tasks-1234?v=567",
        "secretary of the board",
        "tokens: 512",
        "basic idea of the bearer",
        "12:30@noon",
        "sqlite:////data/hermes.db",
        "claimed by hermes/ab12:cd34",
        "RetryCount=3",
    ],
)
def test_ordinary_words_are_left_alone(text):
    assert Redactor(["local", "", "  "]).text(text) == text


def test_a_short_secret_does_not_mask_ordinary_words():
    assert Redactor(["local"]).text("the local board") == "the local board"


def test_the_longest_secret_wins_and_later_ones_are_learnt():
    redactor = Redactor(["abcdefgh"])
    redactor.learn(["abcdefgh-and-more"])
    assert redactor.text("x abcdefgh-and-more y abcdefgh") == f"x {MASK} y {MASK}"


@given(
    st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_no_secret_survives_any_surroundings(secret, before, after):
    assert secret not in Redactor([secret]).text(before + secret + after).replace(MASK, "")


def test_an_object_that_cannot_be_shown_does_not_stop_the_line(lines):
    class Broken:
        def __str__(self):
            raise RuntimeError("no")

        __repr__ = __str__

    stream = lines()
    structlog.get_logger().info("x", broken=Broken())
    assert "Broken that cannot be shown" in stream.getvalue()


def test_values_that_hold_themselves_end():
    endless: list[object] = []
    endless.append(endless)
    Redactor().value(endless)


@pytest.mark.parametrize("format", ["json", "console"])
def test_a_title_can_neither_forge_a_line_nor_command_the_terminal(lines, format):
    stream = lines(format)
    title = 'ok\n{"event": "forged"}\r\x1b[2J\x07\u202egnp.exe\u2028x\ud800\x9b31m'
    structlog.get_logger().info("card", title=title, **{"k\nforged": 1})
    structlog.get_logger().info(title)
    text = stream.getvalue()
    assert text.count("\n") == 2
    for character in "\r\x1b\x07\u202e\u2028\ud800\x9b":
        assert character not in text
    text.encode()


def test_one_json_object_a_line_with_the_fields_that_tie_it_to_its_run(lines):
    stream = lines()
    with bind(poll_id="tasks", run_id="r1", claim_id=claim_id("r1", 3), source_type=None):
        structlog.get_logger("hermes.claim").info("claimed", decision="claim", dedupe_key="k")
    structlog.get_logger().info("after")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["poll_id"] == "tasks"
    assert first["claim_id"] == "r1#3"
    assert "source_type" not in first
    assert first["timestamp"].endswith("Z")
    assert first["level"] == "info"
    assert "poll_id" not in second


def test_the_level_is_kept_for_ours_and_for_libraries(lines):
    stream = lines(level="warning")
    structlog.get_logger().info("no")
    logging.getLogger("library").info("no")
    logging.getLogger("httpx").info("HTTP Request: GET https://secret")
    logging.getLogger("library").warning("yes")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["yes"]


def test_configuring_again_replaces_and_does_not_double(lines):
    lines()
    stream = lines()
    logging.getLogger("library").warning("once")
    assert len(stream.getvalue().splitlines()) == 1


def test_a_broken_format_string_of_a_library_is_a_line_all_the_same(lines):
    stream = lines()
    record = logging.LogRecord("library", logging.WARNING, "f.py", 1, "%d items", ("three",), None)
    logging.getLogger().handlers[-1].handle(record)  # not through pytest's own handler, which raises
    assert "cannot be formatted" in stream.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "eyJ-" * 50_000,
        "://a:" * 40_000,
        "token " * 30_000,
        "Bearer " * 30_000,
        "ntn_" * 50_000,
        "-----BEGIN PRIVATE KEY-----" * 8_000,
    ],
)
def test_strangers_texts_do_not_make_redaction_slow(text):
    redactor = Redactor(CANARIES)
    started = time.process_time()
    redactor.text(text)
    assert time.process_time() - started < 3


def test_a_value_nobody_wants_whole_is_cut_and_says_so(lines):
    stream = lines()
    structlog.get_logger().info("card", body="x" * 100_000)
    assert len(stream.getvalue()) < 21_000
    assert "80,000 more characters" in stream.getvalue()
