"""Versions of a poll: hashes of what its file says, as it is written.

`${NAME}` is hashed as `${NAME}`: a rotated secret makes no new version, and none can be found from a hash. Key order,
comments and quotes make no difference.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

CONDITION_KEYS = ("filter", "judge", "action")
"""What decides whether and what is done: part of the dedupe key of every effect."""


def definition_version(definition: dict[str, Any]) -> str:
    return _hash(definition)


def condition_version(definition: dict[str, Any]) -> str:
    return _hash({key: definition[key] for key in CONDITION_KEYS if key in definition})


def _hash(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]
