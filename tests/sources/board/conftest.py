"""A board of its own for each test, and the real client pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notion_client import Client

from hermes.testing.clock import FakeClock
from sources.board import BoardServer, running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def board(tmp_path: Path, clock: FakeClock) -> Iterator[BoardServer]:
    with running(tmp_path / "board.db", clock=clock) as server:
        yield server


@pytest.fixture
def client(board: BoardServer) -> Iterator[Client]:
    with Client(auth=board.token, base_url=board.url, notion_version="2026-03-11", retry=False) as client:
        yield client
