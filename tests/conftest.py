"""Which tests run. Those that kill real processes are many and slow: a few run always, all with HERMES_CRASH=all."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked `crash` and not `always` is left to the campaign, unless it is asked for by name."""
    if os.environ.get("HERMES_CRASH") == "all" or any("::" in argument for argument in config.args):
        return
    left = [item for item in items if item.get_closest_marker("crash") and not item.get_closest_marker("always")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
