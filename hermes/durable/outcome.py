"""What an await comes to: a value, an exception, or that the run has left this worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Value:
    value: Any


@dataclass(frozen=True, slots=True)
class Error:
    error: Exception


Outcome: TypeAlias = Value | Error


class Left(Exception):
    """The run has left this worker: the transaction that says where to is made. Never seen by user code."""
