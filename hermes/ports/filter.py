"""The deterministic filter: an expression that is checked when it is read and evaluated in code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from hermes.errors import Skippable
from hermes.model.card import Card
from hermes.model.json import JSON


class FilterError(Skippable):
    """The expression has no answer for one record (a null is compared, a column is not there): it does not match, and
    the poll says so. The others are not touched."""


class Filter(Protocol):
    text: str

    def matches(self, record: Card, poll: Mapping[str, JSON], now: datetime) -> bool:
        """Raises FilterError."""
        ...


class FilterCompiler(Protocol):
    def compile(self, text: str, columns: Collection[str] | None = None) -> Filter:
        """Raises ConfigError whose `where` is `line:column` inside `text`. `columns`: names of the board's columns,
        when its schema is known; without them only the fields of every card can be checked."""
        ...
