"""How long a campaign went on, by a clock that nobody sets."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "campaign", sa.Column("elapsed_s", sa.Double(), server_default="0", nullable=False)
    )
