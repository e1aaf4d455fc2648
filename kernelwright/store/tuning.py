"""Schedules that won before: where a search of the same ops, shapes and dtypes begins."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceName
from kernelwright.store.schema import CandidateRow, ChampionRow, TaskRow

_MOST = 4


def tuned(
    session: Session, task: Task, *, signature: str, device: DeviceName, chip: str
) -> tuple[str, ...]:
    """Return the schedules of champions of like tasks on a chip, each once, the task's own first.

    Tasks are alike when they have the same ops and the same inputs; their constants may differ.
    """
    query = (
        select(CandidateRow.schedule)
        .join(ChampionRow, ChampionRow.candidate_id == CandidateRow.id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .where(
            TaskRow.tuning_key == digest(signature, ", ".join(map(str, task.graph.input_types))),
            ChampionRow.device == device,
            ChampionRow.chip == chip,
            ChampionRow.state != "revoked",
            CandidateRow.schedule != "",
        )
        .order_by((TaskRow.id == task.fingerprint).desc(), ChampionRow.crowned_at.desc())
    )
    return tuple(dict.fromkeys(session.scalars(query)))[:_MOST]
