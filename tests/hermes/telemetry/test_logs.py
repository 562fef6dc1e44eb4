"""A log that cannot be written stops no work: a dispatcher once died of a closed stderr, and its worker stood still."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from hermes.telemetry.logs import configure_logs
from hermes.telemetry.redaction import Redactor

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def default_logs() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


def on_a_full_disk() -> TextIO:
    if not FULL.exists():
        pytest.skip("this system has no /dev/full")
    return FULL.open("w", encoding="utf-8")


def whose_reader_is_gone() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w", encoding="utf-8")


@pytest.mark.parametrize("stream", [closed, on_a_full_disk, whose_reader_is_gone])
def test_D2_a_log_that_cannot_be_written_stops_no_work(stream) -> None:
    out = stream()
    try:
        configure_logs(Redactor(), stream=out, format="json")
        for _ in range(3):
            structlog.get_logger("hermes.worker").warning("no runs leased", error="x" * 10_000)
    finally:
        with suppress(OSError):
            out.close()


def test_what_can_be_written_is_written() -> None:
    out = io.StringIO()
    configure_logs(Redactor(), stream=out, format="json")
    structlog.get_logger("hermes.worker").warning("no runs leased")
    assert '"event": "no runs leased"' in out.getvalue()
