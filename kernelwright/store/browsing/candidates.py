"""Candidates in pages, and as the tree in which they descend from each other."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session, aliased, defer

from kernelwright.store.browsing.record import (
    CandidateNode,
    CandidateOrder,
    StoredEvaluation,
    TrialFilter,
    TrialPage,
)
from kernelwright.store.queries.candidate import entry_of
from kernelwright.store.queries.row import rank_of_columns
from kernelwright.store.record import Candidate, HistoryEntry
from kernelwright.store.schema import (
    CandidateRow,
    ChampionRow,
    EvaluationRow,
    TaskRow,
    TrialRow,
)

Row = TypeVar("Row")
_ORDERS: dict[str, tuple[ColumnElement[Any], ...]] = {
    "at": (TrialRow.created_at.expression,),
    "rank": (EvaluationRow.rank_kind.expression, EvaluationRow.rank_value.expression),
    "status": (EvaluationRow.status.expression,),
    "author": (CandidateRow.author.expression,),
    "idea": (CandidateRow.idea.expression,),
    "task": (TaskRow.name.expression,),
}


def trial_page(
    session: Session,
    wanted: TrialFilter,
    *,
    order: CandidateOrder,
    descending: bool,
    offset: int,
    limit: int,
) -> TrialPage:
    """Return some trials in an order; what has no rank or no verdict comes last."""
    # Ids first: whole rows are wide, and only those of one page are read.
    ids = _ordered(wanted, order, descending=descending).offset(offset).limit(limit)
    page = session.scalars(ids).all()
    total = session.scalar(_joined(select(func.count()).select_from(TrialRow), wanted, "at")) or 0
    return TrialPage(items=entries(session, page), total=total)


def trial_ids(
    session: Session, wanted: TrialFilter, *, order: CandidateOrder, descending: bool
) -> tuple[str, ...]:
    """Return the ids of all trials that are wanted, in an order."""
    return tuple(session.scalars(_ordered(wanted, order, descending=descending)))


def _ordered(wanted: TrialFilter, order: CandidateOrder, *, descending: bool) -> Select[str]:
    ids = _joined(select(TrialRow.id), wanted, order)
    for column in _ORDERS[order]:
        key = column.desc() if descending and column is not _ORDERS["rank"][0] else column.asc()
        ids = ids.order_by(*([] if order in ("at", "task") else [column.is_(None)]), key)
    return ids.order_by(TrialRow.id)


def _joined(query: Select[Row], wanted: TrialFilter, order: CandidateOrder) -> Select[Row]:
    """Filter trials; only tables that a filter or the order needs are joined."""
    if wanted.task_id or wanted.text or order in ("author", "idea", "task"):
        query = query.join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
    if order == "task":
        query = query.join(TaskRow, TaskRow.id == CandidateRow.task_id)
    if wanted.status or order in ("rank", "status"):
        query = query.outerjoin(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
    if wanted.run_ids is not None:
        query = query.where(TrialRow.campaign_id.in_(wanted.run_ids))
    if wanted.task_id is not None:
        query = query.where(CandidateRow.task_id == wanted.task_id)
    if wanted.status is not None:
        query = query.where(EvaluationRow.status == wanted.status.value)
    if wanted.is_under_way:
        query = query.where(TrialRow.state.in_(("evaluating", "confirming")))
    if wanted.text:
        text = wanted.text.lower()
        query = query.where(
            or_(
                func.lower(CandidateRow.idea).contains(text, autoescape=True),
                func.lower(CandidateRow.author).contains(text, autoescape=True),
                CandidateRow.id.startswith(text, autoescape=True),
            )
        )
    return query


def entries(session: Session, trial_ids: Sequence[str]) -> tuple[HistoryEntry, ...]:
    """Return trials by their ids, in that order."""
    query = (
        select(TrialRow, CandidateRow, TaskRow, EvaluationRow)
        .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
        .join(TaskRow, TaskRow.id == CandidateRow.task_id)
        .outerjoin(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
        .options(defer(TaskRow.graph), defer(EvaluationRow.body))
        .where(TrialRow.id.in_(trial_ids))
    )
    found = {t.id: entry_of(t, c, k, e) for t, c, k, e in session.execute(query)}
    return tuple(found[id_] for id_ in trial_ids)


def children(
    session: Session, task_id: str, parent_id: str | None, *, offset: int, limit: int
) -> tuple[CandidateNode, ...]:
    """Return the candidates that descend from one, or from none that the store knows."""
    query = select(CandidateRow).where(CandidateRow.task_id == task_id)
    if parent_id is None:
        parent = aliased(CandidateRow)
        known = select(parent.id).where(
            parent.task_id == task_id, parent.program_id == CandidateRow.parent_program_id
        )
        query = query.where(CandidateRow.parent_program_id.is_(None) | ~known.exists())
    else:
        program = select(CandidateRow.program_id).where(CandidateRow.id == parent_id)
        query = query.where(CandidateRow.parent_program_id == program.scalar_subquery())
    query = query.order_by(CandidateRow.created_at, CandidateRow.id).offset(offset).limit(limit)
    return nodes(session, session.scalars(query).all())


def nodes(session: Session, rows: Sequence[CandidateRow]) -> tuple[CandidateNode, ...]:
    """Return candidates as nodes of their tree, with their newest verdicts."""
    ids = [row.id for row in rows]
    newest = _newest_verdicts(session, ids)
    champions = set(
        session.scalars(select(ChampionRow.candidate_id).where(ChampionRow.candidate_id.in_(ids)))
    )
    counts = _child_counts(session, rows)
    made = []
    for row in rows:
        status, kind, value = newest.get(row.id, (None, None, None))
        parent = row.parent_program_id
        made.append(
            CandidateNode.model_validate(
                {
                    "id": row.id,
                    "parent_id": Candidate.id_of(row.task_id, parent) if parent else None,
                    "author": row.author,
                    "idea": row.idea,
                    "status": status,
                    "rank": rank_of_columns(kind, value),
                    "created_at": row.created_at,
                    "children": counts.get(row.program_id, 0),
                    "is_champion": row.id in champions,
                }
            )
        )
    return tuple(made)


def _newest_verdicts(
    session: Session, ids: Collection[str]
) -> dict[str, tuple[str, str | None, float | None]]:
    query = (
        select(
            EvaluationRow.candidate_id,
            EvaluationRow.status,
            EvaluationRow.rank_kind,
            EvaluationRow.rank_value,
        )
        .where(EvaluationRow.candidate_id.in_(ids))
        .order_by(EvaluationRow.created_at)
    )
    return {id_: (status, kind, value) for id_, status, kind, value in session.execute(query)}


def _child_counts(session: Session, rows: Sequence[CandidateRow]) -> dict[str, int]:
    if not rows:
        return {}
    programs = {row.program_id for row in rows}
    query = (
        select(CandidateRow.parent_program_id, func.count())
        .where(
            CandidateRow.task_id == rows[0].task_id, CandidateRow.parent_program_id.in_(programs)
        )
        .group_by(CandidateRow.parent_program_id)
    )
    return {parent: count for parent, count in session.execute(query) if parent is not None}


def ranked_candidates(session: Session, task_id: str) -> int:
    """Count a task's candidates that have a ranked evaluation."""
    query = select(func.count(EvaluationRow.candidate_id.distinct())).where(
        EvaluationRow.task_id == task_id, EvaluationRow.rank_value.is_not(None)
    )
    return session.scalar(query) or 0


def stored_evaluations(
    session: Session, task_id: str, *, limit: int
) -> tuple[StoredEvaluation, ...]:
    """Return a task's correct evaluations unread, the best ranked first."""
    query = (
        select(
            EvaluationRow.id,
            EvaluationRow.candidate_id,
            EvaluationRow.status,
            CandidateRow.author,
            CandidateRow.idea,
            EvaluationRow.body,
        )
        .join(CandidateRow, CandidateRow.id == EvaluationRow.candidate_id)
        .where(EvaluationRow.task_id == task_id, EvaluationRow.rank_value.is_not(None))
        .order_by(EvaluationRow.rank_kind, EvaluationRow.rank_value)
        .limit(limit)
    )
    return tuple(StoredEvaluation(*row) for row in session.execute(query))
