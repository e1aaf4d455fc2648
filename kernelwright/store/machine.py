"""Champions of other devices, and what this machine made of them at their first use."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program
from kernelwright.store.reading import champion_of
from kernelwright.store.schema import (
    CandidateRow,
    ChampionRow,
    EvaluationRow,
    MachineTrialRow,
    ProgramRow,
    TaskRow,
)
from kernelwright.store.serving import ServedProgram


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
    query = (
        select(ChampionRow, CandidateRow, TaskRow, EvaluationRow, ProgramRow)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(ProgramRow, ProgramRow.id == CandidateRow.program_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(
            ChampionRow.task_id.in_(task_ids),
            or_(ChampionRow.device != device, ChampionRow.chip != chip),
            ChampionRow.state == "fresh",
            EvaluationRow.evaluator_version >= EVALUATOR_VERSION,
        )
        .order_by((ChampionRow.device != device), ChampionRow.device, ChampionRow.chip)
    )
    found: dict[str, tuple[ServedProgram, ...]] = {}
    for champion, candidate, task, verdict, program in session.execute(query):
        served = ServedProgram(
            champion_of(champion, candidate, task, (verdict.status, verdict.evaluator_version)),
            Program.model_validate_json(program.body),
            Evaluation.model_validate_json(verdict.body),
        )
        found[champion.task_id] = (*found.get(champion.task_id, ()), served)
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
