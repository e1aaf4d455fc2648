"""Wanted calls: what programs asked for and no kernel could serve."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "wanted",
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.String(length=64), nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "origin", name=op.f("pk_wanted")),
    )
    op.create_index(op.f("ix_wanted_last_seen_at"), "wanted", ["last_seen_at"], unique=False)
