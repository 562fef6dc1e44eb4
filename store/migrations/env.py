"""What Alembic runs for each of its commands. The connection and its one transaction are those of store/migrate.py."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlmodel import SQLModel

import store.tables  # noqa: F401 -- registers the tables
from store.migrations.rendering import render_item

_given = context.config.attributes


def _note(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
    _given["applied"].extend(step.up_revision_ids)


context.configure(
    connection=_given["connection"],
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    render_item=render_item,
    transactional_ddl=False,
    on_version_apply=_note,
)
context.run_migrations()
