"""Exit codes, and which error ends a command with which. What went wrong is said on stderr, in one place."""

from __future__ import annotations

import signal
import sys
import traceback
from enum import IntEnum
from typing import Any

from typer import Exit
from typer.core import TyperGroup


class Code(IntEnum):
    ok = 0
    failed = 1
    """It was tried and something failed; `doctor`: something must be put right."""
    usage = 2
    """A wrong option, or a configuration that cannot be used."""
    not_found = 3
    """No such poll, run, card or board; or a name that several things bear."""
    database = 4
    """The database cannot be used: missing, damaged, of a newer Hermes, locked, full."""


HELP = (
    "Exit codes: 0 ok, 1 something failed, 2 usage or configuration, 3 not found, 4 the database cannot be used, "
    "130 or 143 ended by a second signal."
)


class CommandError(Exception):
    """Ends the command with `code` and these words."""

    def __init__(self, words: str, code: Code) -> None:
        super().__init__(words)
        self.code = code


class Commands(TyperGroup):
    """The top of the command line: turns what a command raises into words and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Exit(128 + signal.SIGINT) from None
        except Exception as error:
            if type(error).__module__.split(".")[0] in ("typer", "click"):
                raise  # its own: usage errors, exits
            raise Exit(_say(error)) from None


def _say(error: Exception) -> int:
    from hermes.cli.output import safe_lines
    from hermes.errors import ConfigError, HermesError, StoreError
    from hermes.operations import NotFound
    from hermes.telemetry.redaction import Redactor

    redact = Redactor().text
    match error:
        case CommandError():
            code = error.code
        case ConfigError():
            code = Code.usage
        case NotFound():
            code = Code.not_found
        case StoreError():
            code = Code.database
        case HermesError():
            code = Code.failed
        case BrokenPipeError():  # whoever read our output has gone
            sys.stderr.close()
            return Code.failed
        case _:
            sys.stderr.write(redact("".join(traceback.format_exception(error))))
            return Code.failed
    sys.stderr.write(safe_lines(redact(str(error))) + "\n")
    return code
