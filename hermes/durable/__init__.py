"""Durable functions: what users import. How they are kept alive stands in ENGINE.md beside this file."""

from hermes.durable.asking import ask_a_person, delay, now, patched, random, uuid
from hermes.durable.children import start
from hermes.durable.combining import when_all, when_any
from hermes.durable.command import command
from hermes.durable.context import current_step
from hermes.durable.endings import ContinueAsNew, Found, Refused, Snooze
from hermes.durable.events import Event, fire, wait_for_event
from hermes.durable.failure import CommandFailed
from hermes.durable.function import continue_as_new, function
from hermes.durable.polling import PollExhausted, poll_until
from hermes.errors import UnknownOutcome, WaitTimedOut
from hermes.model.claim import CardInput

__all__ = [
    "CardInput",
    "CommandFailed",
    "ContinueAsNew",
    "Event",
    "Found",
    "PollExhausted",
    "Refused",
    "Snooze",
    "UnknownOutcome",
    "WaitTimedOut",
    "ask_a_person",
    "command",
    "continue_as_new",
    "current_step",
    "delay",
    "fire",
    "function",
    "now",
    "patched",
    "poll_until",
    "random",
    "start",
    "uuid",
    "wait_for_event",
    "when_all",
    "when_any",
]
