"""Champions of other devices, and what this machine made of them at their first use."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kernelwright.metal.diagnostic import Record
from kernelwright.store.schema import (
    ChampionRow,
    MachineTrialRow,
)
from kernelwright.store.serving import ServedProgram, fresh_champions


class MachineTrial(Record):
    """A champion of another device, compared with MLX on this one with real inputs."""

    task_id: str
    candidate_id: str
    device: str
    chip: str
    runtime: str
    is_kept: bool
    has_same_bits: bool = False
    """Its results were MLX's own, bit for bit, on the inputs that were tried."""
    kernel_us: float | None = None
    mlx_us: float | None = None
    reason: str


def from_elsewhere(
    session: Session, task_ids: Collection[str], *, device: str, chip: str
) -> dict[str, tuple[ServedProgram, ...]]:
    """Return each task's fresh champions of other chips, those of the same kind of device first."""
    is_elsewhere = or_(ChampionRow.device != device, ChampionRow.chip != chip)
    order = (ChampionRow.device != device, ChampionRow.device, ChampionRow.chip)
    found: dict[str, tuple[ServedProgram, ...]] = {}
    for served in fresh_champions(session, task_ids, is_elsewhere, order):
        task_id = served.champion.task.id
        found[task_id] = (*found.get(task_id, ()), served)
    return found


def machine_trials(
    session: Session, task_ids: Collection[str], *, device: str, chip: str, runtime: str
) -> tuple[MachineTrial, ...]:
    """Return what was tried for some tasks on one machine's device."""
    query = select(MachineTrialRow).where(
        MachineTrialRow.task_id.in_(task_ids),
        MachineTrialRow.device == device,
        MachineTrialRow.chip == chip,
        MachineTrialRow.runtime == runtime,
    )
    names = MachineTrial.model_fields
    return tuple(
        MachineTrial.model_validate({name: getattr(row, name) for name in names})
        for row in session.scalars(query)
    )


def record_machine_trial(session: Session, trial: MachineTrial) -> None:
    """Keep a trial; a later one of the same kernel takes its place."""
    session.merge(MachineTrialRow(**trial.model_dump(), tried_at=datetime.now(UTC)))
