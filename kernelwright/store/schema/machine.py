"""The table of kernels from elsewhere that a machine has tried on its own GPU."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from kernelwright.store.schema.base import Base, Label, Words
from kernelwright.store.schema.search import Digest


class MachineTrialRow(Base):
    """What became of a champion of another device at its first use on this one."""

    __tablename__ = "machine_trial"

    task_id: Mapped[str] = mapped_column(Digest, primary_key=True)
    candidate_id: Mapped[str] = mapped_column(Digest, primary_key=True)
    device: Mapped[str] = mapped_column(Label(20), primary_key=True)
    chip: Mapped[str] = mapped_column(Label(120), primary_key=True)
    runtime: Mapped[str] = mapped_column(Label(200), primary_key=True)
    is_kept: Mapped[bool]
    has_same_bits: Mapped[bool]
    kernel_us: Mapped[float | None]
    mlx_us: Mapped[float | None]
    reason: Mapped[str] = mapped_column(Words)
    tried_at: Mapped[datetime]
