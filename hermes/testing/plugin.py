"""Hermes' fixtures, which pytest finds by the entry point `pytest11`. What they need is imported when one is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hermes.testing.durable import Durable

pytest.register_assert_rewrite("hermes.testing.engine_contract")


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Durable]:
    """Durable functions on the real engine, a SQLite file of their own and a clock that skips time."""
    from hermes.testing.durable import durable_in

    with durable_in(tmp_path) as durable:
        yield durable
