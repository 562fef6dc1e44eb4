"""What a poll does: one file an action, and the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from hermes.actions.function import FunctionAction, RunFunction
from hermes.actions.function import problem as function_problem
from hermes.actions.notify import Notify, NotifyAction
from hermes.actions.notify import problem as notify_problem
from hermes.config import Configuration, PollConfig
from hermes.ports.actions import CardAction

__all__ = ["ACTIONS", "Action", "CardAction"]


@dataclass(frozen=True, slots=True)
class Action:
    model: type[BaseModel]
    """Its section in a poll file."""
    build: Callable[[Any, PollConfig], CardAction]
    problem: Callable[[Any, Configuration], tuple[str, str] | None]
    """What is wrong with it that only the whole configuration shows: (key, words)."""


ACTIONS: Mapping[str, Action] = {
    "function": Action(
        FunctionAction,
        lambda action, _poll: RunFunction(action.function, dict(action.args)),
        lambda action, _configuration: function_problem(action),
    ),
    "notify": Action(NotifyAction, Notify.of, notify_problem),
}
"""Adding an action is one file and one row."""
