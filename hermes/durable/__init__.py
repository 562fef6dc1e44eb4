"""Durable functions: what users import. How they are kept alive stands in ENGINE.md beside this file."""

from hermes.durable.asking import delay, now, random, uuid
from hermes.durable.command import command
from hermes.durable.context import current_step
from hermes.durable.endings import Found, Refused, Snooze
from hermes.durable.failure import CommandFailed
from hermes.durable.function import function
from hermes.errors import UnknownOutcome
from hermes.model.claim import CardInput

__all__ = [
    "CardInput",
    "CommandFailed",
    "Found",
    "Refused",
    "Snooze",
    "UnknownOutcome",
    "command",
    "current_step",
    "delay",
    "function",
    "now",
    "random",
    "uuid",
]
