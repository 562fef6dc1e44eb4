"""Keys of the API: what one may do, and what is kept of it. The key itself is shown once and never stored."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EVERY_NAMESPACE = "*"
MAX_KEY_NAME = 100
_FORM = re.compile(r"hp_([a-z0-9]{10})_[A-Za-z0-9_-]{43}")
_PREFIX_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Scope(StrEnum):
    fire = "fire"
    """Fire events."""
    runs_read = "runs:read"
    """Read runs that were started under a key: state, result, error."""
    runs_write = "runs:write"
    """Start, cancel and resume them."""
    runs_debug = "runs:debug"
    """With runs:read: also where an error was raised."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as anyone may see it."""

    id: int
    name: str
    prefix: str
    """The part of the key that names it, and no secret."""
    namespace: str
    """The one it works in; `*`: any."""
    scopes: frozenset[Scope]
    created_at: datetime
    last_used_at: datetime | None = None
    """To the minute."""
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    name: str
    prefix: str
    namespace: str
    scopes: frozenset[Scope]
    hash: str


@dataclass(frozen=True, slots=True)
class KeyText:
    """What a caller presents, taken apart. Never shown: `repr` has only the prefix."""

    prefix: str
    hash: str

    def __repr__(self) -> str:
        return f"KeyText({self.prefix!r})"


def make_key_text() -> str:
    """`hp_<prefix>_<secret>`, the secret of 32 random bytes."""
    prefix = "".join(secrets.choice(_PREFIX_LETTERS) for _ in range(10))
    return f"hp_{prefix}_{secrets.token_urlsafe(32)}"


def read_key_text(text: str) -> KeyText | None:
    """None when it cannot be a key of ours."""
    found = _FORM.fullmatch(text)
    return None if found is None else KeyText(found[1], hashlib.sha256(text.encode()).hexdigest())


def checked_key_name(name: str) -> str:
    """Raises ValueError."""
    if not name.strip() or name != name.strip() or len(name) > MAX_KEY_NAME or not name.isprintable():
        raise ValueError(
            f"a key's name has 1 to {MAX_KEY_NAME} characters that can be seen, and no space around it: {name[:60]!r}"
        )
    return name
