"""What is left of a run after its time"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("details", sa.String(length=10), server_default="whole", nullable=False))
        batch_op.create_index(
            "ix_runs_over",
            ["finished_at"],
            unique=False,
            sqlite_where=sa.text("finished_at IS NOT NULL AND details <> 'gone'"),
            postgresql_where=sa.text("finished_at IS NOT NULL AND details <> 'gone'"),
        )
