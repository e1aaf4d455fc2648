"""Champion words: champions are found by one covering index."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "champion_word",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("device", sa.String(length=32), nullable=False),
        sa.Column("chip", sa.String(length=200), nullable=False),
        sa.Column("word", sa.String(length=200), nullable=False),
        sa.Column("crowned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["task_id", "device", "chip"],
            ["champion.task_id", "champion.device", "champion.chip"],
            name=op.f("fk_champion_word_champion"),
        ),
        sa.PrimaryKeyConstraint("task_id", "device", "chip", "word", name=op.f("pk_champion_word")),
    )
    op.execute("""
        INSERT INTO champion_word (task_id, device, chip, word, crowned_at, dtype, shapes)
        SELECT c.task_id, c.device, c.chip, w.word, c.crowned_at, t.dtype, t.shapes
        FROM champion AS c JOIN task AS t ON t.id = c.task_id
        JOIN (SELECT task_id, word FROM task_word UNION ALL SELECT id, '' FROM task) AS w
        ON w.task_id = c.task_id""")
    op.create_index(
        op.f("ix_champion_word_found"),
        "champion_word",
        ["word", "crowned_at", "device", "dtype", "shapes", "task_id", "chip"],
        unique=False,
    )
