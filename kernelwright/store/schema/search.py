"""The tables of a search: campaigns, tasks, programs, candidates, evaluations, champions."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    Integer,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.record import CampaignState, Freshness, RankKind, TrialState
from kernelwright.store.schema.base import Base, Doubles, Label, Words, one_of

Digest = String(64)


class EnvironmentRow(Base):
    """Where evaluations hold: the device, its runtime, MLX, the system."""

    __tablename__ = "environment"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    device: Mapped[str] = mapped_column(Label(32))
    chip: Mapped[str] = mapped_column(Label(200))
    body: Mapped[str] = mapped_column(Words)


class CampaignRow(Base):
    """One run of a search over tasks under a budget.

    Runs that continue one another share a root, the id of the first of them. A run's heartbeat
    tells a living one from a dead one.
    """

    __tablename__ = "campaign"
    __table_args__ = (one_of("state", CampaignState),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    name: Mapped[str] = mapped_column(Label(200))
    state: Mapped[str] = mapped_column(Label(16))
    spec: Mapped[str] = mapped_column(Words)
    root_id: Mapped[str] = mapped_column(Digest, index=True)
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    owner: Mapped[str] = mapped_column(Label(200))
    started_at: Mapped[datetime] = mapped_column(index=True)
    heartbeat_at: Mapped[datetime]
    elapsed_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    ended_at: Mapped[datetime | None]


class TaskRow(Base):
    """A reference graph; its id is the graph's fingerprint."""

    __tablename__ = "task"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    name: Mapped[str] = mapped_column(Label(200))
    signature: Mapped[str] = mapped_column(Words)
    dtype: Mapped[str] = mapped_column(Label(16), index=True)
    shapes: Mapped[str] = mapped_column(Words)
    tuning_key: Mapped[str] = mapped_column(Digest, index=True)
    """Equal for tasks of the same ops and inputs, which one schedule suits."""
    graph: Mapped[str] = mapped_column(Words)
    created_at: Mapped[datetime]


class CampaignTaskRow(Base):
    """A task of a run, and the function that it is a region of."""

    __tablename__ = "campaign_task"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"), primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), primary_key=True, index=True)
    function: Mapped[str] = mapped_column(Label(200), index=True)


class TaskWordRow(Base):
    """One word by which a task is found: an op in it, or a word of its name or signature."""

    __tablename__ = "task_word"

    word: Mapped[str] = mapped_column(Label(200), primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), primary_key=True, index=True)


class ProgramRow(Base):
    """A program by content; the same text is the same row, whoever wrote it."""

    __tablename__ = "program"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    body: Mapped[str] = mapped_column(Words)


class CandidateRow(Base):
    """A program proposed for a task, once, with the first who proposed it."""

    __tablename__ = "candidate"
    __table_args__ = (UniqueConstraint("task_id", "program_id"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"))
    program_id: Mapped[str] = mapped_column(ForeignKey("program.id"), index=True)
    author: Mapped[str] = mapped_column(Label(200))
    idea: Mapped[str] = mapped_column(Words)
    schedule: Mapped[str] = mapped_column(Words)
    parent_program_id: Mapped[str | None] = mapped_column(Digest)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"))
    created_at: Mapped[datetime]


class EvaluationRow(Base):
    """A verdict on a candidate in an environment; the columns repeat what queries filter by."""

    __tablename__ = "evaluation"
    __table_args__ = (
        Index(None, "candidate_id", "environment_id", "evaluator_version"),
        Index(None, "task_id", "device", "status"),
        # Sums of a campaign and of the store read these alone: a row is as long as its verdict.
        Index(
            "ix_evaluation_outcome",
            *("id", "status", "task_id", "candidate_id", "rank_kind", "rank_value"),
        ),
        Index(
            "ix_evaluation_best",
            *("status", "task_id", "rank_kind", "rank_value", "candidate_id"),
        ),
    )

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    evaluator_version: Mapped[int]
    device: Mapped[str] = mapped_column(Label(32))
    status: Mapped[str] = mapped_column(Label(32))
    stage: Mapped[str | None] = mapped_column(Label(32))
    summary: Mapped[str] = mapped_column(Words)
    rank_kind: Mapped[str | None] = mapped_column(Label(16))
    rank_value: Mapped[float | None]
    body: Mapped[str] = mapped_column(Words)
    duration_s: Mapped[float]
    created_at: Mapped[datetime]


class SampleSetRow(Base):
    """The raw timings of one arm."""

    __tablename__ = "sample_set"

    evaluation_id: Mapped[str] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    arm: Mapped[str] = mapped_column(Label(64), primary_key=True)
    nanoseconds: Mapped[tuple[float, ...]] = mapped_column(Doubles)


class TrialRow(Base):
    """A campaign's intent to evaluate a candidate, written before anything is run.

    A lease says who is at it and until when; a trial left behind by a dead owner can be told
    from one in progress, and its candidate be tried last and alone.
    """

    __tablename__ = "trial"
    __table_args__ = (
        UniqueConstraint("campaign_id", "candidate_id"),
        Index(None, "campaign_id", "created_at"),
        Index(
            "ix_trial_outcome",
            *("campaign_id", "candidate_id", "evaluation_id", "state", "reused"),
            *("created_at", "id"),
        ),
        Index("ix_trial_candidate_outcome", "candidate_id", "state", "evaluation_id"),
        one_of("state", TrialState),
    )

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"))
    state: Mapped[str] = mapped_column(Label(16))
    attempts: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None] = mapped_column(Label(200))
    lease_expires_at: Mapped[datetime | None]
    evaluation_id: Mapped[str | None] = mapped_column(ForeignKey("evaluation.id"))
    reused: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(index=True)


class ChampionRow(Base):
    """The best candidate of a task on a chip, and whether its environment still stands."""

    __tablename__ = "champion"
    __table_args__ = (
        Index(None, "device", "crowned_at"),
        Index(None, "crowned_at"),
        Index(None, "speedup"),
        one_of("state", Freshness),
        one_of("rank_kind", RankKind),
    )

    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), primary_key=True)
    device: Mapped[str] = mapped_column(Label(32), primary_key=True)
    chip: Mapped[str] = mapped_column(Label(200), primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"))
    evaluation_id: Mapped[str] = mapped_column(ForeignKey("evaluation.id"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    state: Mapped[str] = mapped_column(Label(16))
    rank_kind: Mapped[str] = mapped_column(Label(16))
    rank_value: Mapped[float]
    speedup: Mapped[float | None]
    """Over the fastest of MLX's own ways; None where nothing was compared."""
    speedup_lower: Mapped[float | None]
    speedup_upper: Mapped[float | None]
    speedup_kind: Mapped[str | None] = mapped_column(Label(16))
    baseline: Mapped[str | None] = mapped_column(Label(64))
    crowned_at: Mapped[datetime]


class EventRow(Base):
    """A line of a campaign's log; ids grow, so that a reader goes on from the last it has read."""

    __tablename__ = "event"
    __table_args__ = (Index(None, "campaign_id", "id"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), Identity(always=False), primary_key=True
    )
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"))
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(Label(64))
    body: Mapped[str] = mapped_column(Words)
