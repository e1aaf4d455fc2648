"""Candidates: what was tried, one with everything about it, and what is known of some."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, defer

from kernelwright.evaluator.evaluation import Samples, Status
from kernelwright.metal.kernel import Program
from kernelwright.store.queries.champion import champion_of
from kernelwright.store.queries.row import rank_of_columns, summary_of
from kernelwright.store.record import (
    Candidate,
    CandidateDetail,
    HistoryEntry,
    KnownEvaluation,
    with_samples,
)
from kernelwright.store.schema import (
    CandidateRow,
    ChampionRow,
    EvaluationRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TrialRow,
)
from kernelwright.store.verdict import read_evaluation


def history(
    session: Session,
    *,
    campaign_id: str | None,
    task_id: str | None,
    candidate_id: str | None,
    status: Status | None,
    limit: int,
) -> tuple[HistoryEntry, ...]:
    """Return trials, newest first."""
    query = (
        select(TrialRow, CandidateRow, TaskRow, EvaluationRow)
        .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
        .join(TaskRow, TaskRow.id == CandidateRow.task_id)
        .outerjoin(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
        .options(defer(TaskRow.graph), defer(EvaluationRow.body))
        .order_by(TrialRow.created_at.desc())
        .limit(limit)
    )
    if campaign_id is not None:
        query = query.where(TrialRow.campaign_id == campaign_id)
    if task_id is not None:
        query = query.where(CandidateRow.task_id == task_id)
    if candidate_id is not None:
        query = query.where(TrialRow.candidate_id == candidate_id)
    if status is not None:
        query = query.where(EvaluationRow.status == status.value)
    return tuple(entry_of(t, c, k, e) for t, c, k, e in session.execute(query))


def entry_of(
    trial: TrialRow, candidate: CandidateRow, task: TaskRow, evaluation: EvaluationRow | None
) -> HistoryEntry:
    """Return a trial as a row of the history."""
    return HistoryEntry.model_validate(
        {
            "campaign_id": trial.campaign_id,
            "candidate_id": candidate.id,
            "task": summary_of(task),
            "author": candidate.author,
            "idea": candidate.idea,
            "state": trial.state,
            "status": Status(evaluation.status) if evaluation else None,
            "summary": evaluation.summary if evaluation else "",
            "rank": rank_of_columns(evaluation.rank_kind, evaluation.rank_value)
            if evaluation
            else None,
            "reused": trial.reused,
            "at": trial.created_at,
        }
    )


def detail(session: Session, candidate_id: str) -> CandidateDetail:
    """Return everything about one candidate."""
    row = session.get_one(CandidateRow, candidate_id)
    task = session.get_one(TaskRow, row.task_id)
    program = session.get_one(ProgramRow, row.program_id)
    evaluations = session.scalars(
        select(EvaluationRow)
        .where(EvaluationRow.candidate_id == candidate_id)
        .order_by(EvaluationRow.created_at.desc())
    )
    champions = session.execute(
        select(ChampionRow, EvaluationRow.status, EvaluationRow.evaluator_version)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(ChampionRow.candidate_id == candidate_id)
    )
    return CandidateDetail(
        candidate=_candidate(row, task),
        program=Program.model_validate_json(program.body),
        graph_json=task.graph,
        lineage=_lineage(session, row, task),
        evaluations=tuple(known_evaluation(session, e) for e in evaluations),
        champion_on=tuple(champion_of(c, row, task, (status, v)) for c, status, v in champions),
    )


def known_of(
    session: Session,
    candidate_ids: Sequence[str],
    *,
    environment_id: str,
    evaluator_version: int,
    unconfirmed: bool = False,
) -> dict[str, KnownEvaluation]:
    """Return the newest verdict on each candidate that has one in this environment.

    Where `unconfirmed`, it is the newest that met no hidden case, if there is such a one.
    """
    rows = session.scalars(
        select(EvaluationRow)
        .where(
            EvaluationRow.candidate_id.in_(candidate_ids),
            EvaluationRow.environment_id == environment_id,
            EvaluationRow.evaluator_version == evaluator_version,
        )
        .order_by(EvaluationRow.created_at)
    )
    of_candidate: dict[str, list[EvaluationRow]] = {}
    for row in rows:
        of_candidate.setdefault(row.candidate_id, []).append(row)
    chosen = {
        id_: _before_confirmation(r) if unconfirmed else r[-1] for id_, r in of_candidate.items()
    }
    return {id_: known_evaluation(session, row) for id_, row in chosen.items()}


def _before_confirmation(rows: Sequence[EvaluationRow]) -> EvaluationRow:
    """Return the newest verdict that met no hidden case, else the newest."""
    unmet = (row for row in reversed(rows) if not read_evaluation(row.body).has_met_hidden_gate)
    return rows[0] if len(rows) == 1 else next(unmet, rows[-1])


def known_evaluation(session: Session, row: EvaluationRow) -> KnownEvaluation:
    """Read one evaluation back, its samples put in place."""
    samples = session.scalars(
        select(SampleSetRow).where(SampleSetRow.evaluation_id == row.id).order_by(SampleSetRow.arm)
    )
    sets = tuple(Samples(arm=s.arm, nanoseconds=s.nanoseconds) for s in samples)
    return KnownEvaluation(
        id=row.id,
        evaluation=with_samples(read_evaluation(row.body), sets),
        rank=rank_of_columns(row.rank_kind, row.rank_value),
        created_at=row.created_at,
    )


def tried(session: Session, task_id: str) -> int:
    """Count the candidates of a task."""
    query = select(func.count()).where(CandidateRow.task_id == task_id)
    return session.scalar(query) or 0


def _candidate(row: CandidateRow, task: TaskRow) -> Candidate:
    return Candidate(
        id=row.id,
        task=summary_of(task),
        program_id=row.program_id,
        author=row.author,
        idea=row.idea,
        schedule=row.schedule,
        parent_program_id=row.parent_program_id,
        campaign_id=row.campaign_id,
        created_at=row.created_at,
    )


def _lineage(session: Session, row: CandidateRow, task: TaskRow) -> tuple[Candidate, ...]:
    ancestors: list[Candidate] = []
    seen = {row.program_id}
    parent_id = row.parent_program_id
    while parent_id is not None and parent_id not in seen:
        seen.add(parent_id)
        parent = session.get(CandidateRow, Candidate.id_of(task.id, parent_id))
        if parent is None:
            break
        ancestors.append(_candidate(parent, task))
        parent_id = parent.parent_program_id
    return tuple(ancestors)
