"""Reads rows that several queries share: ranks, tasks in a line, and how many rows there are."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kernelwright.store.record import (
    Rank,
    TaskSummary,
)
from kernelwright.store.schema import (
    Base,
    TaskRow,
)


def rank_of_columns(kind: str | None, value: float | None) -> Rank | None:
    """Return a rank as a record; None where nothing was ranked."""
    return None if kind is None else Rank.model_validate({"kind": kind, "value": value})


def summary_of(task: TaskRow) -> TaskSummary:
    """Read a task's row, without its graph."""
    return TaskSummary(
        id=task.id,
        name=task.name,
        signature=task.signature,
        dtype=task.dtype,
        shapes=task.shapes,
    )


def row_counts(session: Session) -> dict[str, int]:
    """Count every table's rows."""
    return {
        table.name: session.scalar(select(func.count()).select_from(table)) or 0
        for table in Base.metadata.sorted_tables
    }
