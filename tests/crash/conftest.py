"""Real processes that really die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.databases import CannotStart, PostgresServer
from hermes.testing.nursery import Nursery
from hermes.testing.trial import Trial

FUNCTIONS = Path(__file__).parent / "functions" / "crash_work.py"
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.crash)
            item.add_marker(pytest.mark.xdist_group("crash"))  # one nursery, and the machine for one of them at a time


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def trial(tmp_path: Path, nursery: Nursery) -> Iterator[Callable[..., Trial]]:
    """Makes and opens a trial: `trial("function", ...)`."""
    opened: list[Trial] = []

    def make(function: str = "two_effects", **options: Any) -> Trial:
        made = Trial(tmp_path / f"trial{len(opened)}", nursery, FUNCTIONS, function, **options)
        opened.append(made)
        return made.open()

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Keeps what was committed when it is stopped at once, unlike that of the other tests."""
    try:
        server = PostgresServer(durable=True)
        server.start()
    except CannotStart as error:
        pytest.skip(f"NO POSTGRESQL: NOTHING IS TRIED ON IT. {error}")
    yield server
    server.close()
