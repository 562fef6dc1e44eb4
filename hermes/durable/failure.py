"""Exceptions on their way into the record and back.

One rule, at the first time and at every replay: what is raised at an await is built from the record. It is the original
class when that can be imported by its name and built from the message alone with the same text, else `CommandFailed`.
"""

from __future__ import annotations

import importlib
import traceback

from hermes.errors import HermesError
from hermes.model.run import RunError

MAX_MESSAGE = 10_000
MAX_TRACE = 40_000


class CommandFailed(HermesError):
    """A command failed for the last time, and its own exception cannot be built again. `kind` names its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind.rpartition(':')[2]}: {message}")
        self.kind = kind
        self.message = message


class NotStorable(HermesError):
    """A value cannot be kept as JSON by its annotation, or is larger than the limit."""


class ForeignAwait(HermesError):
    """A durable function awaited something that is not a command, a delay or another handle of its own run."""


class NeverAwaited(HermesError):
    """A durable function called a command and did not await it: its effect would silently not happen."""


class StepRefused(BaseException):
    """The run does not go on here: it hibernates, is parked or cancelled. Not for user code to catch."""


def describe(exc: BaseException) -> RunError:
    cls = type(exc)
    kind = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}:{cls.__qualname__}"
    trace = "".join(traceback.format_exception(exc))
    if len(trace) > MAX_TRACE:
        trace = f"{trace[: MAX_TRACE // 4]}\n[...]\n{trace[-MAX_TRACE * 3 // 4 :]}"
    return RunError(clean(kind)[:300], clean(str(exc))[:MAX_MESSAGE], clean(trace))


def rebuild(error: RunError) -> Exception:
    original = _original(error.kind)
    if original is not None:
        try:
            exc = original(error.message)
            if str(exc) == error.message:
                return exc
        except Exception:  # noqa: BLE001, S110 - whatever a stranger's constructor does, the fallback is right
            pass
    return CommandFailed(error.kind, error.message)


def _original(kind: str) -> type[Exception] | None:
    module, _, name = kind.rpartition(":")
    try:
        found: object = importlib.import_module(module or "builtins")
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def clean(text: str) -> str:
    """Without what a database refuses: NUL, lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
