"""What names a task on a screen, and which verdicts are right."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.evaluator.evaluation import Status
from kernelwright.store.record import TaskSummary
from kernelwright.store.schema import TaskRow

RIGHT = (Status.CORRECT.value, Status.PROMOTED.value)
SUMMARY = (TaskRow.id, TaskRow.name, TaskRow.signature, TaskRow.dtype, TaskRow.shapes)


def summaries(session: Session, task_ids: Collection[str]) -> dict[str, TaskSummary]:
    """Return tasks by their ids."""
    query = select(*SUMMARY).where(TaskRow.id.in_(task_ids))
    return {row[0]: summary_of(row[:5]) for row in session.execute(query)}


def summary_of(columns: Sequence[object]) -> TaskSummary:
    """Return a task of the columns of `SUMMARY`."""
    names = ("id", "name", "signature", "dtype", "shapes")
    return TaskSummary.model_validate(dict(zip(names, columns, strict=True)))
