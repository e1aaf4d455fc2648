"""The table by which champions are found; it repeats what questions filter by."""

from datetime import datetime

from sqlalchemy import ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.schema.base import Base, Label, Words
from kernelwright.store.schema.search import Digest

LONGEST_INDEXED_SHAPES = 800
"""Characters of the inputs' types in the index: an entry of PostgreSQL's has 2,704 bytes."""
EVERY = ""
"""The word that every champion has."""


class ChampionWordRow(Base):
    """One word of one champion's task; an index in the order of coronation covers it.

    A question reads its word's rows and nothing else until it has enough: tasks and
    candidates are wide, and lie scattered over gigabytes.
    """

    __tablename__ = "champion_word"
    __table_args__ = (
        ForeignKeyConstraint(
            ["task_id", "device", "chip"],
            ["champion.task_id", "champion.device", "champion.chip"],
            name="fk_champion_word_champion",
        ),
        Index(
            "ix_champion_word_found", "word", "crowned_at", "device", "dtype", "shapes",
            "task_id", "chip",
        ),
    )  # fmt: skip

    task_id: Mapped[str] = mapped_column(Digest, primary_key=True)
    device: Mapped[str] = mapped_column(Label(32), primary_key=True)
    chip: Mapped[str] = mapped_column(Label(200), primary_key=True)
    word: Mapped[str] = mapped_column(Label(200), primary_key=True)
    crowned_at: Mapped[datetime]
    dtype: Mapped[str] = mapped_column(Label(16))
    shapes: Mapped[str] = mapped_column(Words)
