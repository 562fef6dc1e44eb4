"""What can be run by name: functions and commands, found by their qualified names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from hermes.durable.codec import Codec
from hermes.errors import ConfigError
from hermes.model.json import JSON


class Runnable(Protocol):
    """A function, or a command that is a run by itself."""

    name: str

    @property
    def ending(self) -> Codec: ...

    def coroutine(self, args: Mapping[str, JSON]) -> object:
        """A fresh coroutine for the driver. Raises NotStorable when the arguments do not fit."""
        ...

    def parameters(self) -> dict[str, bool]:
        """By name, and whether each must be given."""
        ...

    def resolve(self) -> None:
        """Look at the annotations now: what cannot be stored is said at the start, not at the first call."""
        ...


class Registry:
    def __init__(self) -> None:
        self._known: dict[str, Runnable] = {}
        self._home: dict[str, str] = {}

    def add(self, runnable: Runnable, home: str) -> None:
        """A name stands for one thing; defining it again in its own module replaces it, as Python does."""
        if self._home.get(runnable.name, home) != home:
            raise ConfigError(f"{runnable.name!r} is defined in {self._home[runnable.name]} and again in {home}")
        self._known[runnable.name] = runnable
        self._home[runnable.name] = home

    def find(self, name: str) -> Runnable | None:
        return self._known.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self._known)

    def resolve(self) -> None:
        for runnable in tuple(self._known.values()):
            runnable.resolve()


REGISTRY = Registry()
"""Where the decorators register."""


def load_functions(modules: Iterable[str], folder: Path | None = None) -> None:
    """Import the users' modules (the `functions:` of hermes.yaml), found in the configuration folder first."""
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    for name in modules:
        try:
            importlib.import_module(name)
        except ConfigError:
            raise
        except Exception as exc:  # a user's module may raise anything
            raise ConfigError(
                f"the module {name!r} of `functions:` cannot be imported: {type(exc).__name__}: {exc}"
            ) from exc
    REGISTRY.resolve()
