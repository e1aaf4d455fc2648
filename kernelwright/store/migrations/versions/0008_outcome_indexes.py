"""Indexes that hold what pages add up, so that no row of a large table is read for a sum."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_trial_campaign_id_created_at", "trial", ["campaign_id", "created_at"])
    op.create_index(
        "ix_trial_outcome",
        "trial",
        ["campaign_id", "candidate_id", "evaluation_id", "state", "reused", "created_at", "id"],
    )
    op.create_index(
        "ix_trial_candidate_outcome", "trial", ["candidate_id", "state", "evaluation_id"]
    )
    op.drop_index("ix_trial_candidate_id", "trial")
    op.create_index(
        "ix_evaluation_outcome",
        "evaluation",
        ["id", "status", "task_id", "candidate_id", "rank_kind", "rank_value"],
    )
    op.create_index(
        "ix_evaluation_best",
        "evaluation",
        ["status", "task_id", "rank_kind", "rank_value", "candidate_id"],
    )
