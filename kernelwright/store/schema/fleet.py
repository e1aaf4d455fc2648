"""The tables of a fleet: who works for it, and jobs whose verdicts have not been collected."""

from datetime import datetime

from sqlalchemy import BigInteger, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.schema.base import Base, Label, Words
from kernelwright.store.schema.search import Digest


class FleetWorkerRow(Base):
    """A worker process that is there, as of its last sign of life."""

    __tablename__ = "fleet_worker"
    __table_args__ = (Index(None, "queue", "seen_at"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    queue: Mapped[str] = mapped_column(Label(128))
    version: Mapped[str] = mapped_column(Label(64))
    environment: Mapped[str] = mapped_column(Words)
    host: Mapped[str] = mapped_column(Label(200))
    process: Mapped[int] = mapped_column(BigInteger)
    jobs: Mapped[int]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    """By the database's clock, which every machine shares."""


class FleetJobRow(Base):
    """A job that was handed to a fleet, until a coordinator has collected its verdict."""

    __tablename__ = "fleet_job"
    __table_args__ = (Index(None, "created_at"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    queued_id: Mapped[int | None] = mapped_column(BigInteger)
    """Its number in the queue."""
    worker: Mapped[str | None] = mapped_column(Label(200))
    """Who began it."""
    verdict: Mapped[str | None] = mapped_column(Words)
    created_at: Mapped[datetime]
