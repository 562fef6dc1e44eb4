"""What CEL says, in the words of the file that is being read."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from hermes.errors import ConfigError

_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?=\n \||\nERROR: |\s*\[[A-Z_]+\]\s*$|$)", re.DOTALL)
_UNDECLARED = re.compile(r"undeclared reference to '(?P<name>[^']*)'")


def syntax_error(message: str, fields: Collection[str], poll_fields: Collection[str]) -> ConfigError:
    """`message` is that of the compiler; `fields` are what `record.` offers."""
    found = _ERROR.search(message)
    if found is None:
        if "Iteration budget" in message or "recursion limit" in message:
            return ConfigError("the expression is too much work: fewer nested parts or comprehensions", where="1:1")
        return ConfigError(f"not a CEL expression: {reason(message)}", where="1:1")
    line, column, what = int(found[1]), int(found[2]), found[3].strip()
    unknown = _UNDECLARED.search(what)
    if unknown:
        name = unknown["name"]
        if name.startswith("record.") or name == "record":
            # The column reported is that of the dot.
            missing = name.removeprefix("record").removeprefix(".")
            if not missing:
                return ConfigError('write `record.title`, or `record.properties["Name"]`', where=f"{line}:{column}")
            hint = close_to(missing, fields)
            what = (
                f'`record` has no `{missing}`.{hint} (known: {", ".join(fields)}; columns as record.properties["..."])'
            )
            return ConfigError(what, where=f"{line}:{max(1, column - len('record'))}")
        if name.startswith("poll."):
            what = f"`poll` has no `{name.removeprefix('poll.')}` (known: {', '.join(poll_fields)})"
            return ConfigError(what, where=f"{line}:{max(1, column - len('poll'))}")
        return ConfigError(f"`{name}` is not known (known: record, poll, now; quote texts)", where=f"{line}:{column}")
    if "no matching overload" in what:
        applied = re.search(r"for '_?([^']*?)_?' applied to '\((.*)\)'", what)
        if applied:
            kinds = applied[2].replace("google.protobuf.", "")
            what = f"`{applied[1]}` cannot be used on ({kinds})"
    elif "Syntax error" in what:
        what = "not a CEL expression: " + re.sub(r" expecting \{.*", "", what).replace("Syntax error: ", "").replace(
            "'<EOF>'", "the end"
        )
    return ConfigError(what, where=f"{line}:{column}")


def close_to(word: str, known: Collection[str]) -> str:
    folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return f" Did you mean `{folded[close[0]]}`?" if close else ""


def place(text: str, offset: int) -> str:
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def reason(message: str) -> str:
    """CEL's message without its codes, and with the cure for the usual one."""
    plain = re.sub(r"^[A-Z_]+: ", "", message)
    plain = re.sub(r"\s*\[[A-Z_]+\]$", "", plain).strip()[:300]
    overload = re.search(r"No matching overloads found : (?:_?([^\s(]*?)_?)\((.*)\)$", plain)
    if "null_type" in plain:
        return f"a value is empty ({plain.removeprefix('No matching overloads found : ')}): test `!= null` first"
    if overload:
        return f"`{overload[1]}` cannot be used on ({overload[2]})"
    missing = re.match(r'Key not found in map : "(.*)"', plain)
    if missing:
        return f'the card has no column "{missing[1]}": test `"{missing[1]}" in record.properties` first'
    return plain
