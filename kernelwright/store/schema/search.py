"""The tables of a search: campaigns, tasks, programs, candidates, evaluations, champions."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.schema.base import Base

Digest = String(64)


class EnvironmentRow(Base):
    """Where evaluations hold: the device, its runtime, MLX, the system."""

    __tablename__ = "environment"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    device: Mapped[str] = mapped_column(String(32))
    chip: Mapped[str] = mapped_column(String(200))
    body: Mapped[str] = mapped_column(Text)


class CampaignRow(Base):
    """A search over tasks under a budget; its heartbeat tells a living one from a dead one."""

    __tablename__ = "campaign"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16))
    spec: Mapped[str] = mapped_column(Text)
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    owner: Mapped[str] = mapped_column(String(200))
    started_at: Mapped[datetime] = mapped_column(index=True)
    heartbeat_at: Mapped[datetime]
    elapsed_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    ended_at: Mapped[datetime | None]


class TaskRow(Base):
    """A reference graph; its id is the graph's fingerprint."""

    __tablename__ = "task"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    signature: Mapped[str] = mapped_column(Text)
    dtype: Mapped[str] = mapped_column(String(16), index=True)
    shapes: Mapped[str] = mapped_column(Text, index=True)
    graph: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


class TaskWordRow(Base):
    """One word by which a task is found: an op in it, or a word of its name or signature."""

    __tablename__ = "task_word"

    word: Mapped[str] = mapped_column(String(200), primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), primary_key=True, index=True)


class ProgramRow(Base):
    """A program by content; the same text is the same row, whoever wrote it."""

    __tablename__ = "program"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    body: Mapped[str] = mapped_column(Text)


class CandidateRow(Base):
    """A program proposed for a task, once, with the first who proposed it."""

    __tablename__ = "candidate"
    __table_args__ = (UniqueConstraint("task_id", "program_id"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"))
    program_id: Mapped[str] = mapped_column(ForeignKey("program.id"), index=True)
    author: Mapped[str] = mapped_column(String(200))
    idea: Mapped[str] = mapped_column(Text)
    schedule: Mapped[str] = mapped_column(Text)
    parent_program_id: Mapped[str | None] = mapped_column(Digest)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"))
    created_at: Mapped[datetime]


class EvaluationRow(Base):
    """A verdict on a candidate in an environment; the columns repeat what queries filter by."""

    __tablename__ = "evaluation"
    __table_args__ = (
        Index(None, "candidate_id", "environment_id", "evaluator_version"),
        Index(None, "task_id", "device", "status"),
    )

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    evaluator_version: Mapped[int]
    device: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(32))
    stage: Mapped[str | None] = mapped_column(String(32))
    summary: Mapped[str] = mapped_column(Text)
    rank_kind: Mapped[str | None] = mapped_column(String(16))
    rank_value: Mapped[float | None]
    body: Mapped[str] = mapped_column(Text)
    duration_s: Mapped[float]
    created_at: Mapped[datetime]


class SampleSetRow(Base):
    """The raw timings of one arm, as little-endian doubles in nanoseconds."""

    __tablename__ = "sample_set"

    evaluation_id: Mapped[str] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    arm: Mapped[str] = mapped_column(String(64), primary_key=True)
    nanoseconds: Mapped[bytes] = mapped_column(LargeBinary)


class TrialRow(Base):
    """A campaign's intent to evaluate a candidate, written before anything is run.

    A lease says who is at it and until when; a trial left behind by a dead owner can be told
    from one in progress, and its candidate be tried last and alone.
    """

    __tablename__ = "trial"
    __table_args__ = (
        UniqueConstraint("campaign_id", "candidate_id"),
        Index(None, "state", "lease_expires_at"),
    )

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"), index=True)
    state: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_expires_at: Mapped[datetime | None]
    evaluation_id: Mapped[str | None] = mapped_column(ForeignKey("evaluation.id"))
    reused: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(index=True)


class ChampionRow(Base):
    """The best candidate of a task on a chip, and whether its environment still stands."""

    __tablename__ = "champion"
    __table_args__ = (Index(None, "device", "crowned_at"), Index(None, "crowned_at"))

    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), primary_key=True)
    device: Mapped[str] = mapped_column(String(32), primary_key=True)
    chip: Mapped[str] = mapped_column(String(200), primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidate.id"))
    evaluation_id: Mapped[str] = mapped_column(ForeignKey("evaluation.id"))
    environment_id: Mapped[str] = mapped_column(ForeignKey("environment.id"))
    state: Mapped[str] = mapped_column(String(16))
    rank_kind: Mapped[str] = mapped_column(String(16))
    rank_value: Mapped[float]
    crowned_at: Mapped[datetime]


class EventRow(Base):
    """A line of a campaign's log, numbered within it so that stores can be merged."""

    __tablename__ = "event"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaign.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(64))
    body: Mapped[str] = mapped_column(Text)
