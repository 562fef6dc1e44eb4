"""Making and revoking keys of the API, for the command line and pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from hermes.app import App
from hermes.errors import HermesError
from hermes.model.api_key import (
    EVERY_NAMESPACE,
    ApiKey,
    NewApiKey,
    Scope,
    checked_key_name,
    make_key_text,
    read_key_text,
)
from hermes.model.namespace import checked_namespace


class NotMade(HermesError):
    """The text says why."""


def create_key(app: App, name: str, *, namespace: str, scopes: Collection[Scope]) -> tuple[ApiKey, str]:
    """The key and its text, which is known to nobody after this. Raises NotMade."""
    try:
        checked_key_name(name)
        if namespace != EVERY_NAMESPACE:
            checked_namespace(namespace)
    except ValueError as error:
        raise NotMade(str(error)) from None
    if not scopes:
        raise NotMade("a key without a scope opens nothing")
    text = make_key_text()
    read = read_key_text(text)
    assert read is not None  # noqa: S101 - it was made a moment ago
    with app.store.write() as unit:
        key = unit.api_keys.add(NewApiKey(name, read.prefix, namespace, frozenset(scopes), read.hash))
    if key is None:
        raise NotMade(f"there is a key {name!r} already, maybe a revoked one: give this one another name")
    return key, text


def revoke_key(app: App, name: str) -> tuple[ApiKey, bool] | None:
    """The key and whether it was good until now; None when there is none of that name."""
    with app.store.write() as unit:
        before = next((key for key in unit.api_keys.all() if key.name == name), None)
        after = unit.api_keys.revoke(name)
    if before is None or after is None:
        return None
    return after, before.revoked_at is None


def keys(app: App) -> tuple[Sequence[ApiKey], datetime]:
    """Oldest first."""
    with app.store.read() as unit:
        return unit.api_keys.all(), unit.now
