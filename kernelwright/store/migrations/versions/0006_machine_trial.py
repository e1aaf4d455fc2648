"""Trials of champions from elsewhere on a machine's own GPU."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "machine_trial",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=20), nullable=False),
        sa.Column("chip", sa.String(length=120), nullable=False),
        sa.Column("runtime", sa.String(length=200), nullable=False),
        sa.Column("is_kept", sa.Boolean(), nullable=False),
        sa.Column("has_same_bits", sa.Boolean(), nullable=False),
        sa.Column("kernel_us", sa.Double(), nullable=True),
        sa.Column("mlx_us", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(
            "task_id", "candidate_id", "device", "chip", "runtime", name=op.f("pk_machine_trial")
        ),
    )
