"""First schema: campaigns, tasks, candidates, evaluations, model calls."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "environment",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=False),
        sa.Column("chip", sa.String(length=200), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environment")),
    )
    op.create_table(
        "lesson",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("signature", sa.String(length=200), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=True),
        sa.Column("device", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("helped", sa.Integer(), nullable=False),
        sa.Column("hurt", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lesson")),
    )
    with op.batch_alter_table("lesson", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_lesson_signature"), ["signature"], unique=False)

    op.create_table(
        "program",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_program")),
    )
    op.create_table(
        "task",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_task_dtype"), ["dtype"], unique=False)
        batch_op.create_index(batch_op.f("ix_task_shapes"), ["shapes"], unique=False)

    op.create_table(
        "campaign",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("environment_id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environment.id"], name=op.f("fk_campaign_environment_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
    )
    with op.batch_alter_table("campaign", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_campaign_started_at"), ["started_at"], unique=False)

    op.create_table(
        "task_word",
        sa.Column("word", sa.String(length=200), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_task_word_task_id")),
        sa.PrimaryKeyConstraint("word", "task_id", name=op.f("pk_task_word")),
    )
    with op.batch_alter_table("task_word", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_task_word_task_id"), ["task_id"], unique=False)

    op.create_table(
        "candidate",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("program_id", sa.String(length=64), nullable=False),
        sa.Column("author", sa.String(length=200), nullable=False),
        sa.Column("idea", sa.Text(), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("parent_program_id", sa.String(length=64), nullable=True),
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_candidate_campaign_id")
        ),
        sa.ForeignKeyConstraint(
            ["program_id"], ["program.id"], name=op.f("fk_candidate_program_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_candidate_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate")),
        sa.UniqueConstraint("task_id", "program_id", name=op.f("uq_candidate_task_id_program_id")),
    )
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidate_program_id"), ["program_id"], unique=False)

    op.create_table(
        "conversation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("campaign_id", sa.String(length=64), nullable=True),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_conversation_campaign_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_conversation_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversation")),
    )
    with op.batch_alter_table("conversation", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_conversation_campaign_id"), ["campaign_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_conversation_task_id"), ["task_id"], unique=False)

    op.create_table(
        "event",
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_event_campaign_id")
        ),
        sa.PrimaryKeyConstraint("campaign_id", "ordinal", name=op.f("pk_event")),
    )
    op.create_table(
        "call",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("conversation_id", sa.String(length=64), nullable=True),
        sa.Column("campaign_id", sa.String(length=64), nullable=True),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("parent_id", sa.String(length=64), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("template_hash", sa.String(length=64), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("reserved_microdollars", sa.Integer(), nullable=False),
        sa.Column("cost_microdollars", sa.Integer(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_call_campaign_id")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversation.id"], name=op.f("fk_call_conversation_id")
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["call.id"], name=op.f("fk_call_parent_id")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_call_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_call")),
        sa.UniqueConstraint("request_hash", "ordinal", name=op.f("uq_call_request_hash_ordinal")),
    )
    with op.batch_alter_table("call", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_call_campaign_id_created_at"),
            ["campaign_id", "created_at"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_call_conversation_id"), ["conversation_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_call_task_id"), ["task_id"], unique=False)

    op.create_table(
        "evaluation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("environment_id", sa.String(length=64), nullable=False),
        sa.Column("evaluator_version", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("stage", sa.String(length=32), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("rank_kind", sa.String(length=16), nullable=True),
        sa.Column("rank_value", sa.Double(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidate.id"], name=op.f("fk_evaluation_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environment.id"], name=op.f("fk_evaluation_environment_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_evaluation_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluation")),
    )
    with op.batch_alter_table("evaluation", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_evaluation_candidate_id_environment_id_evaluator_version"),
            ["candidate_id", "environment_id", "evaluator_version"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_evaluation_task_id_device_status"),
            ["task_id", "device", "status"],
            unique=False,
        )

    op.create_table(
        "message",
        sa.Column("conversation_id", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("author", sa.String(length=32), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversation.id"], name=op.f("fk_message_conversation_id")
        ),
        sa.PrimaryKeyConstraint("conversation_id", "ordinal", name=op.f("pk_message")),
    )
    op.create_table(
        "regression_case",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", sa.String(length=64), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidate.id"], name=op.f("fk_regression_case_candidate_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_regression_case_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_regression_case")),
    )
    with op.batch_alter_table("regression_case", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_regression_case_task_id"), ["task_id"], unique=False)

    op.create_table(
        "champion",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=False),
        sa.Column("chip", sa.String(length=200), nullable=False),
        sa.Column("candidate_id", sa.String(length=64), nullable=False),
        sa.Column("evaluation_id", sa.String(length=64), nullable=False),
        sa.Column("environment_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("rank_kind", sa.String(length=16), nullable=False),
        sa.Column("rank_value", sa.Double(), nullable=False),
        sa.Column("crowned_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidate.id"], name=op.f("fk_champion_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"], ["environment.id"], name=op.f("fk_champion_environment_id")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_champion_evaluation_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_champion_task_id")),
        sa.PrimaryKeyConstraint("task_id", "device", "chip", name=op.f("pk_champion")),
    )
    with op.batch_alter_table("champion", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_champion_crowned_at"), ["crowned_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_champion_device_crowned_at"), ["device", "crowned_at"], unique=False
        )

    op.create_table(
        "sample_set",
        sa.Column("evaluation_id", sa.String(length=64), nullable=False),
        sa.Column("arm", sa.String(length=64), nullable=False),
        sa.Column("nanoseconds", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_sample_set_evaluation_id")
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "arm", name=op.f("pk_sample_set")),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("evaluation_id", sa.String(length=64), nullable=True),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_trial_campaign_id")
        ),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidate.id"], name=op.f("fk_trial_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_trial_evaluation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
        sa.UniqueConstraint(
            "campaign_id", "candidate_id", name=op.f("uq_trial_campaign_id_candidate_id")
        ),
    )
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trial_candidate_id"), ["candidate_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_trial_created_at"), ["created_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_trial_state_lease_expires_at"),
            ["state", "lease_expires_at"],
            unique=False,
        )
