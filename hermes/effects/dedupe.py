"""The key by which an effect is known: what it is for, in one text that no other effect shares."""

from __future__ import annotations

import hashlib
import unicodedata
from urllib.parse import quote

from hermes.model.key import MAX_KEY, checked_key


def dedupe_key(
    *,
    user: str,
    poll: str,
    object_id: str,
    cause: str,
    action: str,
    place: str,
    target: str,
    condition_version: str,
) -> str:
    """`cause`: the generation of a card (`generation:3`) or the hash of a change (`change:9f2a...`). `place`: where in
    the chain of the action this effect stands. `target`: who or what it reaches.

    Parts are joined by `|` after escaping it, so that no two lists of parts make one key; a key too long to be one is
    cut and ends in a hash of the whole. Only `target` and `condition_version` may be empty."""
    parts = {
        "user": user,
        "poll": poll,
        "object_id": object_id,
        "cause": cause,
        "action": action,
        "place": place,
        "target": target,
        "condition_version": condition_version,
    }
    for name, part in parts.items():
        if not part.strip() and name not in ("target", "condition_version"):
            raise ValueError(f"a dedupe key needs {name}")
    key = "effect|" + "|".join(map(_escaped, parts.values()))
    if len(key) > MAX_KEY:
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{key[: MAX_KEY - 66]}#{digest}"
    return checked_key(key)


def _escaped(part: str) -> str:
    """Percent-encoded where it would not be one visible part: separators, white space, control characters."""
    composed = unicodedata.normalize("NFC", part)
    return "".join(one if one.isprintable() and one not in "%| " else quote(one, safe="") for one in composed)
