"""Many writers: events by identity, runs by root, checked states, speedups on champions."""

import hashlib
import json
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_STATES = {
    "campaign": ("state", ("running", "finished", "capped", "interrupted", "failed")),
    "trial": ("state", ("intended", "evaluating", "confirming", "done")),
    "call": ("state", ("begun", "finished", "failed")),
    "lesson": ("state", ("proposed", "trusted", "refuted")),
}
_LONGEST_INDEXED_SHAPES = 800


def upgrade() -> None:
    _number_events()
    _drop_conversations()
    _give_runs_their_root()
    _link_tasks_to_campaigns()
    _key_tasks()
    _add_speedups()
    with op.batch_alter_table("trial") as batch:
        batch.drop_index("ix_trial_state_lease_expires_at")
        _check(batch, "trial")
    with op.batch_alter_table("lesson") as batch:
        _check(batch, "lesson")
    op.execute(
        f"UPDATE champion_word SET shapes = substr(shapes, 1, {_LONGEST_INDEXED_SHAPES}) "
        f"WHERE length(shapes) > {_LONGEST_INDEXED_SHAPES}"
    )
    if op.get_bind().dialect.name != "sqlite":
        # SQLite's integers have 64 bits whatever they are called.
        for table, column in (
            ("call", "reserved_microdollars"),
            ("call", "cost_microdollars"),
            ("wanted", "calls"),
        ):
            op.alter_column(table, column, type_=sa.BigInteger())


def _number_events() -> None:
    op.rename_table("event", "event_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX pk_event RENAME TO pk_event_before")
    op.create_table(
        "event",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_event_campaign_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.execute(
        "INSERT INTO event (campaign_id, at, kind, body) "
        "SELECT campaign_id, at, kind, body FROM event_before ORDER BY at, campaign_id, ordinal"
    )
    op.drop_table("event_before")
    op.create_index(op.f("ix_event_campaign_id_id"), "event", ["campaign_id", "id"], unique=False)


def _drop_conversations() -> None:
    op.drop_table("message")
    with op.batch_alter_table("call") as batch:
        batch.drop_index("ix_call_conversation_id")
        batch.drop_constraint("fk_call_conversation_id", type_="foreignkey")
        batch.drop_column("conversation_id")
        _check(batch, "call")
    op.drop_table("conversation")


def _give_runs_their_root() -> None:
    op.add_column("campaign", sa.Column("root_id", sa.String(length=64), nullable=True))
    connection = op.get_bind()
    runs = connection.execute(
        sa.text(
            "SELECT c.id, c.name, c.spec, c.state, e.device FROM campaign AS c "
            "JOIN environment AS e ON e.id = c.environment_id ORDER BY c.started_at"
        )
    ).all()
    # A run continued the ones with its name and settings, up to the last that finished.
    roots: dict[tuple[str, str, str], str] = {}
    for id_, name, spec, state, device in runs:
        root = roots.setdefault((name, spec, device), id_)
        if state == "finished":
            del roots[name, spec, device]
        connection.execute(
            sa.text("UPDATE campaign SET root_id = :root WHERE id = :id"), {"root": root, "id": id_}
        )
    with op.batch_alter_table("campaign") as batch:
        batch.alter_column("root_id", existing_type=sa.String(length=64), nullable=False)
        _check(batch, "campaign")
    op.create_index(op.f("ix_campaign_root_id"), "campaign", ["root_id"], unique=False)


def _link_tasks_to_campaigns() -> None:
    op.create_table(
        "campaign_task",
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaign.id"], name=op.f("fk_campaign_task_campaign_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_campaign_task_task_id")),
        sa.PrimaryKeyConstraint("campaign_id", "task_id", name=op.f("pk_campaign_task")),
    )
    connection = op.get_bind()
    pairs = connection.execute(
        sa.text(
            "SELECT DISTINCT t.campaign_id, c.task_id, k.name FROM trial AS t "
            "JOIN candidate AS c ON c.id = t.candidate_id JOIN task AS k ON k.id = c.task_id"
        )
    ).all()
    _execute_many(
        "INSERT INTO campaign_task (campaign_id, task_id, function) VALUES (:campaign, :task, :f)",
        (
            {"campaign": campaign, "task": task, "f": name.partition("/")[0]}
            for campaign, task, name in pairs
        ),
    )
    for column in ("task_id", "function"):
        op.create_index(op.f(f"ix_campaign_task_{column}"), "campaign_task", [column], unique=False)


def _key_tasks() -> None:
    op.add_column("task", sa.Column("tuning_key", sa.String(length=64), nullable=True))
    tasks = op.get_bind().execute(sa.text("SELECT id, signature, shapes FROM task")).all()
    _execute_many(
        "UPDATE task SET tuning_key = :key WHERE id = :id",
        ({"id": id_, "key": _digest(signature, shapes)} for id_, signature, shapes in tasks),
    )
    with op.batch_alter_table("task") as batch:
        batch.drop_index("ix_task_shapes")
        batch.alter_column("tuning_key", existing_type=sa.String(length=64), nullable=False)
    op.create_index(op.f("ix_task_tuning_key"), "task", ["tuning_key"], unique=False)


def _add_speedups() -> None:
    with op.batch_alter_table("champion") as batch:
        for column in ("speedup", "speedup_lower", "speedup_upper"):
            batch.add_column(sa.Column(column, sa.Double(), nullable=True))
        batch.add_column(sa.Column("speedup_kind", sa.String(length=16), nullable=True))
        batch.add_column(sa.Column("baseline", sa.String(length=64), nullable=True))
        batch.create_check_constraint(
            op.f("ck_champion_state"), "state IN ('fresh', 'stale', 'revoked')"
        )
        batch.create_check_constraint(
            op.f("ck_champion_rank_kind"), "rank_kind IN ('measured', 'predicted', 'traffic')"
        )
    verdicts = op.get_bind().execute(
        sa.text(
            "SELECT c.evaluation_id, e.body FROM champion AS c "
            "JOIN evaluation AS e ON e.id = c.evaluation_id"
        )
    )
    _execute_many(
        "UPDATE champion SET speedup = :ratio, speedup_lower = :lower, speedup_upper = :upper, "
        "speedup_kind = :kind, baseline = :baseline WHERE evaluation_id = :id",
        ({"id": id_, **least} for id_, body in verdicts if (least := _least_speedup(body))),
    )
    op.create_index(op.f("ix_champion_speedup"), "champion", ["speedup"], unique=False)


def _least_speedup(body: str) -> dict[str, object] | None:
    speedups = json.loads(body).get("speedups") or []
    for kind in ("measured", "predicted"):
        if found := [s for s in speedups if s["kind"] == kind]:
            least = min(found, key=lambda s: float(s["ratio"]))
            kept = ("ratio", "lower", "upper", "kind", "baseline")
            return {name: least.get(name) for name in kept}
    return None


def _check(batch: object, table: str) -> None:
    assert hasattr(batch, "create_check_constraint")
    column, values = _STATES[table]
    listed = ", ".join(f"'{value}'" for value in values)
    batch.create_check_constraint(op.f(f"ck_{table}_{column}"), f"{column} IN ({listed})")


def _execute_many(statement: str, rows: Iterable[dict[str, object]]) -> None:
    listed: Sequence[dict[str, object]] = list(rows)
    if listed:
        op.get_bind().execute(sa.text(statement), listed)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()
