"""Which tests run, and on which databases. Tests that kill real processes are many and slow: a few run always, all
with HERMES_CRASH=all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.testing.databases import CannotStart, Databases, PostgresServer, postgres_databases, sqlite_files

MEMORY = Path("/dev/shm")  # noqa: S108 - where the system has it: a disk adds nothing to these tests but waiting


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked `crash` and not `always` is left to the campaign, and so is what would say on PostgreSQL what it
    has said on SQLite already (`sqlite_is_enough`); the large worlds of the model are explored by `make model`."""
    if os.environ.get("HERMES_DATABASES") != "all":
        twice = {item for item in items if item.get_closest_marker("sqlite_is_enough") and "postgresql" in item.name}
        config.hook.pytest_deselected(items=list(twice))
        items[:] = [item for item in items if item not in twice]
    if os.environ.get("HERMES_CRASH") == "all" or any("::" in argument for argument in config.args):
        return
    left = [item for item in items if item.get_closest_marker("crash") and not item.get_closest_marker("always")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One for all tests of this process. Where none can be started its tests are skipped, and `-ra` says so."""
    try:
        server = PostgresServer()
        server.start()
    except CannotStart as error:
        if os.environ.get("HERMES_POSTGRESQL") == "must":
            raise
        pytest.skip(f"NO POSTGRESQL: NOTHING IS TRIED ON IT. {error}")
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    if not MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, folder: Path) -> Iterator[Databases]:
    """Of one kind; a test that takes this runs on each."""
    if request.param == "sqlite":
        making = sqlite_files(folder)
    else:
        making = postgres_databases(request.getfixturevalue("postgres_server"))
    with making as found:
        yield found
