"""What may be a key. Empty and odd keys are refused at the door: one re-ran a side effect for a month elsewhere."""

from __future__ import annotations

import unicodedata

from hermes.model.namespace import checked_namespace

MAX_KEY = 500


def checked_key(key: str) -> str:
    """The key in Unicode's composed form, so that two that look alike are one. Raises ValueError, saying why."""
    if not isinstance(key, str):
        raise ValueError(f"a key is text, not {type(key).__name__}")
    composed = unicodedata.normalize("NFC", key)
    if not composed.strip():
        raise ValueError("a key must not be empty")
    if composed != composed.strip():
        raise ValueError(f"a key must not begin or end with white space: {key!r}")
    if len(composed) > MAX_KEY:
        raise ValueError(f"a key has at most {MAX_KEY} characters, this one {len(composed)}: {key[:60]!r}...")
    categories = {unicodedata.category(character) for character in composed}
    if categories & {"Cc", "Cs", "Zl", "Zp"}:
        raise ValueError(f"a key must not contain control characters: {key!r}")
    if not any(category[0] in "LNPSM" for category in categories):
        raise ValueError(f"a key must contain something that can be seen: {key!r}")
    return composed


def user_key(namespace: str, key: str) -> str:
    """The key of a run that was started under `key` by its function's own users: apart from those of cards and
    effects, and from those of other namespaces. Raises ValueError."""
    return checked_key(f"run:{checked_namespace(namespace)}:{checked_key(key)}")
