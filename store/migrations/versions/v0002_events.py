"""Events, waits, and runs that go on in an empty history"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("namespace", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("instance_id", sa.String(length=500), nullable=False),
        sa.Column("event_id", sa.String(length=200), nullable=True),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.Column("fired_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fired_by", sa.String(length=200), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("namespace", "name", "instance_id", "event_id", name="uq_events_event_id"),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_expires", ["expires_at"], unique=False)
        batch_op.create_index(
            "ix_events_kept",
            ["namespace", "name", "instance_id", "id"],
            unique=False,
            sqlite_where=sa.text("delivered_at IS NULL"),
            postgresql_where=sa.text("delivered_at IS NULL"),
        )
        batch_op.create_index("ix_events_run", ["run_id"], unique=False)

    op.create_table(
        "waits",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("namespace", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("instance_id", sa.String(length=500), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("race", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_waits")),
        sa.UniqueConstraint("run_id", "seq", name="uq_waits_run_id"),
    )
    with op.batch_alter_table("waits", schema=None) as batch_op:
        batch_op.create_index("ix_waits_pair", ["namespace", "name", "instance_id", "id"], unique=False)

    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("namespace", sa.String(length=100), server_default="default", nullable=False))
        batch_op.add_column(sa.Column("base_seq", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("continued", sa.Integer(), server_default="0", nullable=False))
