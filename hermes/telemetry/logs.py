"""Sets up structlog for the process: one line an event, no secrets, nothing a terminal or a log reader obeys."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO, cast

import structlog

from hermes.telemetry.redaction import Redactor

FIELDS = (
    "poll_id",
    "run_id",
    "source_type",
    "source_object_id",
    "claim_id",
    "cursor_before",
    "cursor_after",
    "decision",
    "dedupe_key",
    "error",
)
"""The fields that tie a line to what it is about. `claim_id` is run id and fence."""

LONGEST = 20_000
"""Characters of one value; a card may hold more than anybody wants in a log."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAK = re.compile(r"[\r\n]")


def claim_id(run_id: str, fence: int) -> str:
    return f"{run_id}#{fence}"


def bind(**fields: Any) -> Any:
    """Context of every line in the block: `with bind(poll_id=..., run_id=...):`. None leaves a field out."""
    return structlog.contextvars.bound_contextvars(
        **{name: value for name, value in fields.items() if value is not None}
    )


def configure_logs(
    redactor: Redactor,
    *,
    level: str = "info",
    format: Literal["auto", "json", "console"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Called once by the composition root; again replaces what was set."""
    out = stream or sys.stderr
    as_json = format == "json" or (format == "auto" and not out.isatty())
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        redactor,
        _harmless,
    ]
    if as_json:
        processors.append(structlog.processors.JSONRenderer(ensure_ascii=False))
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=_plain_exception))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Unfailing(out))),
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(level)


class _Unfailing:
    """A line that cannot be written (the disk of the log is full, its reader is gone) is lost, and nothing else: the
    threads that log are those that do the work, and one that died of its log would do none any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _plain_exception(stream: TextIO, exc_info: Any) -> None:
    """Never reached: exceptions are text before rendering, so that they are redacted."""


def _harmless(_logger: Any, _method: str, event: Any) -> Any:
    return _visible(event, lines=False)


def _visible(value: Any, *, lines: bool) -> Any:
    """Control and direction characters are shown, not sent. Only a traceback keeps its lines."""
    if isinstance(value, str):
        value = value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value) - LONGEST:,} more characters)"
        kept = value if lines else _BREAK.sub(lambda found: "\\n" if found[0] == "\n" else "\\r", value)
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", kept)
    if isinstance(value, dict):
        return {
            _visible(key, lines=False): _visible(inner, lines=key in ("exception", "stack"))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_visible(inner, lines=False) for inner in value]
    return value


class _ToStructlog(logging.Handler):
    """Other libraries' warnings go the same way, redacted like ours."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception as exc:  # noqa: BLE001  (a library's broken format string)
            message = f"{record.msg!r} (cannot be formatted: {type(exc).__name__})"
        log = structlog.get_logger(record.name)
        name = (
            "error" if record.levelno >= logging.ERROR else "warning" if record.levelno >= logging.WARNING else "info"
        )
        getattr(log, name)(message, logger=record.name, exc_info=record.exc_info or None)


def _route_standard_logging(level: str) -> None:
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _ToStructlog):
            root.removeHandler(handler)
    root.addHandler(_ToStructlog())
    root.setLevel(logging.WARNING if level != "debug" else logging.INFO)
    # httpx logs every URL at INFO, notion-client bodies at DEBUG: never.
    for name in ("httpx", "httpcore", "notion_client", "urllib3", "apprise"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns whenever a tick is still running when the next is due, which is what we want it to skip.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
