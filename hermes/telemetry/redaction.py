"""Takes secrets out of what is about to be written: known values first, then what looks like one."""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

MASK = "[redacted]"
SHORTEST = 6
"""A shorter secret (the `local` token of the local board) would mask ordinary words."""
MAX_DEPTH = 8

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:ntn|secret|sk|xox[abprs]|ghp|gho|github_pat|whsec)[_-][A-Za-z0-9_\-]{8,}"), MASK),
    (re.compile(r"\b(hp_[a-z0-9]{10}_)[A-Za-z0-9_\-]{8,}"), rf"\1{MASK}"),  # a key of our own API, but for its name
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{6,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"(://)[^/\s:@'\"]*:[^/\s@'\"]+@"), rf"\1{MASK}@"),
    # Not after a character of its own alphabet: else a text of many `eyJ-` would be searched from each of them.
    (re.compile(r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*"), MASK),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), MASK),
    (
        re.compile(
            r"([?&;\s'\"](?:access_token|refresh_token|token|api_?key|password|passwd|secret|client_secret)"
            r"['\"]?\s*[=:]\s*['\"]?)(?!\[redacted\])[^\s&'\",;})\]]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
)
_SECRET_KEY = re.compile(
    r"^(?:.*_)?(?:token|secret|password|passwd|api_?key|authorization|cookie|set_cookie)$", re.IGNORECASE
)


class Redactor:
    """Knows the secret values of this process. One for the process; safe from all threads."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._mutex = threading.Lock()
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Remember more secret values: as they are, URL-encoded, in base64, and as `repr` shows them. Never forgets."""
        found: set[str] = set()
        for secret in secrets:
            for part in {secret, secret.strip()}:
                if len(part) < SHORTEST:
                    continue
                raw = part.encode("utf-8", "surrogatepass")
                found |= {part, quote(part, safe=""), quote(part), repr(part)[1:-1], b64encode(raw).decode()}
                # Inside a longer text base64 depends on the offset: these parts of it do not.
                for offset in (0, 1, 2):
                    middle = b64encode(b"\0" * offset + raw).decode().rstrip("=")
                    start, end = (0, 2, 3)[offset], len(middle) - 1
                    if end - start >= SHORTEST + 4:
                        found.add(middle[start:end])
        with self._mutex:
            self._known |= found
            if self._known:
                longest_first = sorted(self._known, key=lambda value: (-len(value), value))
                self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        pattern = self._pattern
        if pattern is not None:
            text = pattern.sub(MASK, text)
        for known, replacement in _PATTERNS:
            text = known.sub(replacement, text)
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        """A copy in which every text, and the text of every object, is redacted."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth >= MAX_DEPTH:
            return self.text(_shown(value))
        if isinstance(value, dict):
            return {
                self.text(str(key)): MASK if _names_secret(key) and inner else self.value(inner, depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(inner, depth + 1) for inner in value]
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        return self.text(_shown(value))

    def __call__(self, _logger: Any, _method: str, event: Any) -> Any:
        """As a structlog processor; stands after `format_exc_info`, so tracebacks are text by then."""
        return self.value(event)


def _names_secret(key: Any) -> bool:
    return isinstance(key, str) and _SECRET_KEY.match(key) is not None


def _shown(value: Any) -> str:
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001  (an object that cannot be shown must not stop a log line)
        return f"<{type(value).__name__} that cannot be shown: {type(exc).__name__}>"
