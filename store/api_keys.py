"""Keys of the API: made, found by their prefix, revoked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, or_, select, update

from hermes.model.api_key import ApiKey, NewApiKey, Scope
from store.inserting import InsertIgnoring
from store.prepared import Prepared
from store.tables.api_keys import API_KEYS

if TYPE_CHECKING:
    from store.unit_of_work import UnitOfWork

USE_NOTED_EVERY = timedelta(minutes=1)

_ADD = InsertIgnoring(API_KEYS, "name")
_BY_PREFIX = Prepared(select(API_KEYS).where(API_KEYS.c.prefix == bindparam("b_prefix")))
_BY_NAME = select(API_KEYS).where(API_KEYS.c.name == bindparam("b_name"))
_REVOKE = (
    update(API_KEYS)
    .where(API_KEYS.c.name == bindparam("b_name"), API_KEYS.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("b_now"))
)
_USED = (
    update(API_KEYS)
    .where(
        API_KEYS.c.id == bindparam("b_key"),
        or_(API_KEYS.c.last_used_at.is_(None), API_KEYS.c.last_used_at <= bindparam("b_before")),
    )
    .values(last_used_at=bindparam("b_now"))
)


class ApiKeyStatements:
    """Implements `hermes.ports.api_keys.ApiKeys`."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def add(self, new: NewApiKey) -> ApiKey | None:
        connection = self._uow.connection
        values = {
            "name": new.name,
            "prefix": new.prefix,
            "hash": new.hash,
            "namespace": new.namespace,
            "scopes": json.dumps(sorted(new.scopes)),
            "created_at": self._uow.now,
        }
        if not _ADD(connection, values):
            return None
        return _key_of(connection.execute(_BY_NAME, {"b_name": new.name}).one())

    def by_prefix(self, prefix: str) -> tuple[ApiKey, str] | None:
        row = self._uow.row(_BY_PREFIX, {"b_prefix": prefix})
        return None if row is None else (_key_of(row), row.hash)

    def all(self) -> Sequence[ApiKey]:
        return [_key_of(row) for row in self._uow.connection.execute(select(API_KEYS).order_by(API_KEYS.c.id))]

    def revoke(self, name: str) -> ApiKey | None:
        connection = self._uow.connection
        connection.execute(_REVOKE, {"b_name": name, "b_now": self._uow.now})
        row = connection.execute(_BY_NAME, {"b_name": name}).one_or_none()
        return None if row is None else _key_of(row)

    def note_use(self, key_id: int) -> None:
        now = self._uow.now
        self._uow.connection.execute(_USED, {"b_key": key_id, "b_now": now, "b_before": now - USE_NOTED_EVERY})


def _key_of(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        namespace=row.namespace,
        scopes=frozenset(map(Scope, json.loads(row.scopes))),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
