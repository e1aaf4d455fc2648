"""Workers of a fleet, and jobs whose verdicts nobody has collected yet."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fleet_worker",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("queue", sa.String(length=128), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("process", sa.BigInteger(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleet_worker")),
    )
    op.create_index("ix_fleet_worker_queue_seen_at", "fleet_worker", ["queue", "seen_at"])
    op.create_table(
        "fleet_job",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("queued_id", sa.BigInteger(), nullable=True),
        sa.Column("worker", sa.String(length=200), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleet_job")),
    )
    op.create_index("ix_fleet_job_created_at", "fleet_job", ["created_at"])
