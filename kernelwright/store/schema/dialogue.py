"""The tables of what models were told and said, what it cost, and what was learned."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.model_call import CallState, LessonState
from kernelwright.store.schema.base import Base, Label, Words, one_of
from kernelwright.store.schema.search import Digest


class CallRow(Base):
    """A request to a model, written before it is sent; a reply is paid for once.

    `ordinal` tells repeated identical requests apart, so that a replayed search gets each
    reply back in the order in which it came.
    """

    __tablename__ = "call"
    __table_args__ = (
        UniqueConstraint("request_hash", "ordinal"),
        Index(None, "campaign_id", "created_at"),
        one_of("state", CallState),
    )

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    campaign_id: Mapped[str | None] = mapped_column(ForeignKey("campaign.id"))
    task_id: Mapped[str | None] = mapped_column(ForeignKey("task.id"), index=True)
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("call.id"))
    state: Mapped[str] = mapped_column(Label(16))
    provider: Mapped[str] = mapped_column(Label(64))
    model: Mapped[str] = mapped_column(Label(200))
    role: Mapped[str] = mapped_column(Label(32))
    template_hash: Mapped[str] = mapped_column(Label(64))
    request_hash: Mapped[str] = mapped_column(Label(64))
    ordinal: Mapped[int]
    request: Mapped[str] = mapped_column(Words)
    reply: Mapped[str | None] = mapped_column(Words)
    failure: Mapped[str | None] = mapped_column(Words)
    input_tokens: Mapped[int] = mapped_column(default=0)
    cached_input_tokens: Mapped[int] = mapped_column(default=0)
    output_tokens: Mapped[int] = mapped_column(default=0)
    reserved_microdollars: Mapped[int] = mapped_column(default=0)
    cost_microdollars: Mapped[int] = mapped_column(default=0)
    latency_s: Mapped[float | None]
    created_at: Mapped[datetime]


class RegressionCaseRow(Base):
    """An input that once exposed a wrong program; every later candidate of the task meets it."""

    __tablename__ = "regression_case"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id"), index=True)
    candidate_id: Mapped[str | None] = mapped_column(ForeignKey("candidate.id"))
    body: Mapped[str] = mapped_column(Words)
    created_at: Mapped[datetime]


class LessonRow(Base):
    """Something learned, with the evaluations that speak for and against it."""

    __tablename__ = "lesson"
    __table_args__ = (one_of("state", LessonState),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    text: Mapped[str] = mapped_column(Words)
    signature: Mapped[str] = mapped_column(Label(200), index=True)
    dtype: Mapped[str | None] = mapped_column(Label(16))
    device: Mapped[str | None] = mapped_column(Label(32))
    state: Mapped[str] = mapped_column(Label(16))
    evidence: Mapped[str] = mapped_column(Words)
    helped: Mapped[int] = mapped_column(default=0)
    hurt: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
