"""The table of what programs asked for and no kernel could serve."""

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.schema.base import Base, Label, Words
from kernelwright.store.schema.search import Digest


class WantedRow(Base):
    """Calls of one graph that ran the original, counted where they were counted.

    Counts are kept by origin: a merge takes the larger count of each, so that merging the same
    store twice adds nothing and merging two machines loses nothing.
    """

    __tablename__ = "wanted"
    __table_args__ = (Index(None, "last_seen_at"),)

    fingerprint: Mapped[str] = mapped_column(Digest, primary_key=True)
    origin: Mapped[str] = mapped_column(Digest, primary_key=True)
    function: Mapped[str] = mapped_column(Label(200))
    inputs: Mapped[str] = mapped_column(Words)
    graph: Mapped[str] = mapped_column(Words)
    calls: Mapped[int]
    last_seen_at: Mapped[datetime]
