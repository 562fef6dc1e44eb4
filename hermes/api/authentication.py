"""Who calls, what they may do, and in which namespace.

A key that is missing, unknown, wrong or revoked gets one and the same answer. Guessing is not slowed down: a key is 256
bits of chance, and a lock-out would shut out whoever shares an address with the guesser.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from hermes.api.problems import Problem
from hermes.api.reading import header
from hermes.api.service import Service
from hermes.clock import Clock
from hermes.errors import StoreError
from hermes.model.api_key import EVERY_NAMESPACE, ApiKey, KeyText, Scope, read_key_text
from hermes.model.event import DEFAULT_NAMESPACE
from hermes.model.namespace import checked_namespace

NOTED_EVERY_SECONDS = 60.0
_NOBODY = "0" * 64
_bearer = HTTPBearer(auto_error=False, scheme_name="key", description="`hp_...`, from `hermes-poll keys create`")
_NAMESPACE = "The namespace to work in; left out, the key's own (of a key for all: `default`)."


@dataclass(frozen=True, slots=True)
class Caller:
    key: ApiKey
    namespace: str

    @property
    def name(self) -> str:
        return f"api key {self.key.name}"

    def may(self, scope: Scope) -> bool:
        return scope in self.key.scopes


def needs(scope: Scope) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency: the caller, who may do that."""

    async def authenticated(
        request: Request,
        _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None,
        _namespace: Annotated[str | None, Header(alias="Hermes-Namespace", description=_NAMESPACE)] = None,
    ) -> Caller:
        service: Service = request.app.state.service
        presented = _presented(request)
        key = await service.in_thread(lambda: _find(service, presented)) if presented is not None else None
        if key is None:
            raise Problem(
                401, "unauthorized", "A valid key is needed: Authorization: Bearer hp_...", headers=_CHALLENGE
            )
        if scope not in key.scopes:
            raise Problem(403, "no_scope", f"This key has not the scope {scope.value}.")
        namespace = _namespace_of(key, header(request, "Hermes-Namespace"))
        uses: Uses = request.app.state.uses
        if uses.is_news(key.id):
            service.aside(lambda: _note(service, key.id))
        return Caller(key, namespace)

    return authenticated


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Uses:
    """Which keys were noted as used within the last minute, so that a busy one costs no write."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[int, float] = {}
        self._mutex = threading.Lock()

    def is_news(self, key_id: int) -> bool:
        now = self._clock.boot_seconds()
        with self._mutex:
            if now - self._noted.get(key_id, now - NOTED_EVERY_SECONDS) < NOTED_EVERY_SECONDS:
                return False
            self._noted[key_id] = now
            return True


def _presented(request: Request) -> KeyText | None:
    given = request.headers.getlist("authorization")
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return read_key_text(text.strip(" ")) if scheme.lower() == "bearer" else None


def _find(service: Service, presented: KeyText) -> ApiKey | None:
    with service.app.store.read() as unit:
        found = unit.api_keys.by_prefix(presented.prefix)
    key, kept = found if found is not None else (None, _NOBODY)
    same = hmac.compare_digest(kept, presented.hash)
    return key if key is not None and same and key.revoked_at is None else None


def _namespace_of(key: ApiKey, asked: str | None) -> str:
    if asked is None:
        return DEFAULT_NAMESPACE if key.namespace == EVERY_NAMESPACE else key.namespace
    if key.namespace not in (EVERY_NAMESPACE, asked):
        raise Problem(403, "foreign_namespace", "This key works in another namespace.")
    try:
        return checked_namespace(asked)
    except ValueError:
        raise Problem(422, "not_a_namespace", "Hermes-Namespace is no name of a namespace.") from None


def _note(service: Service, key_id: int) -> None:
    try:
        with service.app.store.write(durable=False) as unit:
            unit.api_keys.note_use(key_id)
    except StoreError:
        pass  # it is bookkeeping: the next use says it
