"""Options that may be given several times, each one of a few words. Typer knows that only for enums, and ours are of
modules that are too heavy for `--help`."""

from __future__ import annotations

from collections.abc import Callable

import typer

ROLES = ("scheduler", "worker", "board", "web")
SCOPES = ("fire", "runs:read", "runs:write", "runs:debug")
STATES = ("ready", "running", "waiting", "succeeded", "refused", "failed", "parked", "cancelled")


def of(allowed: tuple[str, ...]) -> Callable[[list[str] | None], list[str]]:
    """An option's callback: refuses other words."""

    def check(given: list[str] | None) -> list[str]:
        for word in given or ():
            if word not in allowed:
                raise typer.BadParameter(f"{word!r} is not one of {', '.join(allowed)}")
        return given or []

    return check
