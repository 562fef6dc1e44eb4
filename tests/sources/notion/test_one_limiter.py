"""N1: a limit told to one caller holds for every board and process of the credential, and no card fails for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.clock import SystemClock
from hermes.errors import Retryable
from hermes.limits import DatabaseLimiter
from hermes.model.card import CardStatus, CardValues
from sources.notion import BoardSettings, NotionTaskBoard, open_board
from store.database import Database
from store.tables.limits import LIMITS

WRITE = "PATCH /v1/pages/{page_id}"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'hermes.db'}", SystemClock())
    LIMITS.create(database.engine)
    yield database
    database.close()


def opened(bench: Any, database: Database) -> NotionTaskBoard:
    connection = bench.connection
    limiter = DatabaseLimiter(connection.credential_key, database, SystemClock(), connection.budget)
    settings = BoardSettings(connection="local", board=bench.source)
    return open_board("team", settings, connection, limiter)


def test_limit_told_to_one_stops_all_and_leaves_the_cards_alone(bench: Any, database: Database) -> None:
    page = bench.add()
    one, other = opened(bench, database), opened(bench, database)
    one.open_cards()
    bench.calls()
    bench.fault(kind="answer", route=WRITE, status=429, code="rate_limited", headers={"Retry-After": "460"})
    with pytest.raises(Retryable) as told:
        one.write(page, CardValues(status=CardStatus.in_progress, run_id="run-1"))
    assert told.value.retry_after == 460
    for call in (one.open_cards, other.open_cards, lambda: other.write(page, CardValues(status=CardStatus.failed))):
        with pytest.raises(Retryable) as stopped:
            call()
        assert 450 < (stopped.value.retry_after or 0) <= 460
    assert bench.calls() == {WRITE: 1}
    assert bench.client.read("GET", f"pages/{page}")["properties"]["Status"]["select"]["name"] == "Todo"
    one.close()
    other.close()


TAKE_TURNS = """
import sys, time
from hermes.clock import SystemClock
from hermes.limits import DatabaseLimiter
from store.database import Database
database = Database(sys.argv[1], SystemClock())
limiter = DatabaseLimiter("key", database, SystemClock(), 1200)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    limiter.acquire()
    print(time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""


def test_processes_share_one_budget(database: Database) -> None:
    command = [sys.executable, "-c", TAKE_TURNS, database.url.render_as_string(hide_password=False)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    outputs = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        outputs.append(process.communicate(timeout=60)[0])
        assert process.returncode == 0
    calls = sorted(float(line) for output in outputs for line in output.split())
    assert len(calls) == 120
    # 960 a minute for ordinary calls: 80 at once, then 880 a minute, which is 2.7 s for the other forty.
    assert calls[-1] - calls[0] > 2
