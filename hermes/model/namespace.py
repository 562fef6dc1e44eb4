"""Namespaces: what keeps the events and runs of several teams apart in one installation."""

from __future__ import annotations

import re

from hermes.model.event import MAX_NAMESPACE

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]*")


def checked_namespace(text: str) -> str:
    """Raises ValueError. No colon: it ends the namespace in the key of a run, so one could reach into another."""
    if len(text) > MAX_NAMESPACE or not _NAMESPACE.fullmatch(text):
        raise ValueError(
            f"a namespace is up to {MAX_NAMESPACE} small letters, digits, dots, dashes and underscores, beginning with "
            f"a letter or a digit: {text[:60]!r}"
        )
    return text
