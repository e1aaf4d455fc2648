"""Champions: by what their task is, by gain, and of tasks on one chip."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.orm import Session

from kernelwright.evaluator.evaluation import BASELINE_NAMES, EVALUATOR_VERSION, Status
from kernelwright.metal.device.base import DeviceName
from kernelwright.store.queries.row import rank_of_columns, summary_of
from kernelwright.store.record import (
    Champion,
    ChampionSpeedup,
)
from kernelwright.store.schema import (
    EVERY,
    LONGEST_INDEXED_SHAPES,
    CandidateRow,
    ChampionRow,
    ChampionWordRow,
    EvaluationRow,
    TaskRow,
)


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks a question is about; what is None does not matter."""

    op: str | None = None
    dtype: str | None = None
    shape: str | None = None
    """A part of the inputs' types, such as `2048,4096`."""


def best(
    session: Session,
    tasks: TaskFilter,
    *,
    device: DeviceName | None,
    limit: int,
    by_speedup: bool = False,
) -> tuple[Champion, ...]:
    """Return champions, the most recently promoted first, or those that gain most."""
    if by_speedup:
        return _fastest(session, tasks, device, limit)
    found = (
        select(ChampionWordRow.task_id, ChampionWordRow.device, ChampionWordRow.chip)
        .where(*_about(tasks, device))
        .order_by(ChampionWordRow.crowned_at.desc())
        .limit(limit)
        .subquery()
    )
    query = (
        select(*_CHAMPION)
        .join(
            found,
            (found.c.task_id == ChampionRow.task_id)
            & (found.c.device == ChampionRow.device)
            & (found.c.chip == ChampionRow.chip),
        )
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .order_by(ChampionRow.crowned_at.desc(), TaskRow.name)
    )
    return tuple(map(_champion_in, session.execute(query)))


def _fastest(
    session: Session, tasks: TaskFilter, device: DeviceName | None, limit: int
) -> tuple[Champion, ...]:
    """Return champions by speedup, a measured one before a predicted one."""
    same = (
        (ChampionWordRow.task_id == ChampionRow.task_id)
        & (ChampionWordRow.device == ChampionRow.device)
        & (ChampionWordRow.chip == ChampionRow.chip)
    )
    query = (
        select(*_CHAMPION)
        .join(ChampionWordRow, same)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(*_about(tasks, device), ChampionRow.speedup.is_not(None))
        .order_by(ChampionRow.speedup_kind, ChampionRow.speedup.desc(), TaskRow.name)
        .limit(limit)
    )
    return tuple(map(_champion_in, session.execute(query)))


def champions_of(
    session: Session, task_ids: Collection[str], *, device: DeviceName, chip: str
) -> tuple[Champion, ...]:
    """Return the champions of some tasks on one chip."""
    query = (
        select(*_CHAMPION)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(
            ChampionRow.task_id.in_(task_ids),
            ChampionRow.device == device,
            ChampionRow.chip == chip,
        )
    )
    return tuple(map(_champion_in, session.execute(query)))


# Columns rather than entities: three objects a row and their bookkeeping would double the time.
_CHAMPION = (
    TaskRow.id,
    TaskRow.name,
    TaskRow.signature,
    TaskRow.dtype,
    TaskRow.shapes,
    ChampionRow.candidate_id,
    ChampionRow.evaluation_id,
    ChampionRow.device,
    ChampionRow.chip,
    ChampionRow.state,
    ChampionRow.rank_kind,
    ChampionRow.rank_value,
    ChampionRow.crowned_at,
    ChampionRow.speedup,
    ChampionRow.speedup_lower,
    ChampionRow.speedup_upper,
    ChampionRow.speedup_kind,
    ChampionRow.baseline,
    EvaluationRow.status,
    EvaluationRow.evaluator_version,
    CandidateRow.author,
    CandidateRow.idea,
)


def _champion_in(row: Row[*tuple[object, ...]]) -> Champion:
    """Read the columns of `_CHAMPION`."""
    found = row._mapping
    task = ("id", "name", "signature", "dtype", "shapes")
    rest = ("candidate_id", "evaluation_id", "device", "chip", "crowned_at", "author", "idea")
    return Champion.model_validate(
        {
            "task": {name: found[name] for name in task},
            "freshness": freshness_of(found["state"], found["evaluator_version"]),
            "rank": {"kind": found["rank_kind"], "value": found["rank_value"]},
            "speedup": speedup_of(row),
            "status": Status(found["status"]),
            **{name: found[name] for name in rest},
        }
    )


def _about(tasks: TaskFilter, device: DeviceName | None) -> Iterator[ColumnElement[bool]]:
    yield ChampionWordRow.word == (EVERY if tasks.op is None else tasks.op.lower())
    if device is not None:
        yield ChampionWordRow.device == device
    if tasks.dtype is not None:
        yield ChampionWordRow.dtype == tasks.dtype
    if tasks.shape is not None:
        # Long lists of inputs are cut in the index, and read whole where they were.
        whole = select(TaskRow.shapes).where(TaskRow.id == ChampionWordRow.task_id)
        yield ChampionWordRow.shapes.contains(tasks.shape, autoescape=True) | (
            (func.length(ChampionWordRow.shapes) >= LONGEST_INDEXED_SHAPES)
            & whole.scalar_subquery().contains(tasks.shape, autoescape=True)
        )


def freshness_of(state: str, evaluator_version: int) -> str:
    """Return a champion's state; what an earlier evaluator called fresh is stale."""
    return "stale" if state == "fresh" and evaluator_version < EVALUATOR_VERSION else state


def speedup_of(row: ChampionRow | Row[*tuple[object, ...]]) -> ChampionSpeedup | None:
    """Return what a champion, or a row with its columns, gains; None where nothing was compared."""
    if row.speedup is None:
        return None
    # A prediction has no interval.
    is_measured = row.speedup_kind == "measured"
    return ChampionSpeedup.model_validate(
        {
            "kind": row.speedup_kind,
            "baseline": BASELINE_NAMES.get(row.baseline or "", row.baseline),
            "ratio": row.speedup,
            "lower": row.speedup_lower if is_measured else None,
            "upper": row.speedup_upper if is_measured else None,
        }
    )


def champion_of(
    row: ChampionRow, candidate: CandidateRow, task: TaskRow, verdict: tuple[str, int]
) -> Champion:
    """Return a champion as a record; `verdict` is its status and its evaluator's version."""
    status, evaluator_version = verdict
    return Champion.model_validate(
        {
            "task": summary_of(task),
            "candidate_id": row.candidate_id,
            "evaluation_id": row.evaluation_id,
            "device": row.device,
            "chip": row.chip,
            "freshness": freshness_of(row.state, evaluator_version),
            "rank": rank_of_columns(row.rank_kind, row.rank_value),
            "speedup": speedup_of(row),
            "status": Status(status),
            "author": candidate.author,
            "idea": candidate.idea,
            "crowned_at": row.crowned_at,
        }
    )
