"""Forgets what nobody will miss: old timings, failed candidates, calls and log lines."""

from datetime import datetime

from sqlalchemy import ColumnElement, Select, delete, exists, func, select, update
from sqlalchemy.orm import Session, aliased

from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.diagnostic import Record
from kernelwright.store.schema import (
    CallRow,
    CampaignRow,
    CandidateRow,
    ChampionRow,
    EvaluationRow,
    EventRow,
    ProgramRow,
    RegressionCaseRow,
    SampleSetRow,
    TrialRow,
)

_REPEATED = ("CandidateProposed", "CandidateJudged", "CandidateConfirmed")
"""Kinds of lines whose content trials and evaluations hold, too."""
_CORRECT = (Status.CORRECT.value, Status.PROMOTED.value)


class Pruned(Record):
    """What was forgotten, or would be."""

    sample_sets: int
    candidates: int
    evaluations: int
    programs: int
    calls: int = 0
    """To models, in campaigns that are over, for tasks without a champion."""
    events: int = 0
    """Lines on candidates in the logs of campaigns that are over; verdicts stay."""
    is_dry_run: bool
    bytes_freed: int = 0


def prune(session: Session, before: datetime, *, dry_run: bool) -> Pruned:
    """Delete sample sets and rejected candidates older than `before`.

    A champion, its ancestors and what any campaign still works on stay whole. A later search
    that proposes a forgotten candidate evaluates it again.
    """
    lines = _lineages()
    doomed = _rejected(before, lines)
    of_doomed = EvaluationRow.candidate_id.in_(doomed)
    # Correlated to programs that lose their last candidate.
    kept = exists().where(CandidateRow.program_id == ProgramRow.id, CandidateRow.id.not_in(doomed))
    lost = exists().where(CandidateRow.program_id == ProgramRow.id, CandidateRow.id.in_(doomed))
    programs = list(session.scalars(select(ProgramRow.id).where(lost, ~kept)))
    samples = SampleSetRow.evaluation_id.in_(_old_evaluations(before, lines, of_doomed))
    counted = Pruned(
        sample_sets=_count(session, SampleSetRow, samples),
        candidates=_count(session, CandidateRow, CandidateRow.id.in_(doomed)),
        evaluations=_count(session, EvaluationRow, of_doomed),
        programs=len(programs),
        calls=_count(session, CallRow, _old_calls(before)),
        events=_count(session, EventRow, _old_events(before)),
        is_dry_run=dry_run,
    )
    if not dry_run:
        _delete(session, samples, list(session.scalars(doomed)), programs, before)
    return counted


def _delete(
    session: Session,
    samples: ColumnElement[bool],
    doomed: list[str],
    programs: list[str],
    before: datetime,
) -> None:
    session.execute(delete(SampleSetRow).where(samples))
    session.execute(delete(EventRow).where(_old_events(before)))
    calls = list(session.scalars(select(CallRow.id).where(_old_calls(before))))
    for ids in _batches(calls):
        session.execute(update(CallRow).where(CallRow.parent_id.in_(ids)).values(parent_id=None))
    for ids in _batches(calls):
        session.execute(delete(CallRow).where(CallRow.id.in_(ids)))
    for ids in _batches(doomed):
        session.execute(
            update(RegressionCaseRow)
            .where(RegressionCaseRow.candidate_id.in_(ids))
            .values(candidate_id=None)
        )
        session.execute(delete(TrialRow).where(TrialRow.candidate_id.in_(ids)))
        session.execute(delete(EvaluationRow).where(EvaluationRow.candidate_id.in_(ids)))
        session.execute(delete(CandidateRow).where(CandidateRow.id.in_(ids)))
    for ids in _batches(programs):
        session.execute(delete(ProgramRow).where(ProgramRow.id.in_(ids)))


def _rejected(before: datetime, lines: Select[str]) -> Select[str]:
    """Select the candidates that were judged, never as correct, and are nobody's ancestor."""
    judged = EvaluationRow.candidate_id == CandidateRow.id
    return select(CandidateRow.id).where(
        CandidateRow.created_at < before,
        exists().where(judged),
        ~exists().where(judged, EvaluationRow.status.in_(_CORRECT)),
        ~exists().where(judged, EvaluationRow.created_at >= before),
        ~exists().where(TrialRow.candidate_id == CandidateRow.id, TrialRow.state != "done"),
        CandidateRow.id.not_in(lines),
    )


def _over(before: datetime) -> Select[str]:
    """Select the runs of campaigns that nothing resumes, the last of them before `before`."""
    late = select(CampaignRow.root_id).where(CampaignRow.heartbeat_at >= before)
    ended = select(CampaignRow.root_id).where(CampaignRow.state == "finished")
    return select(CampaignRow.id).where(
        CampaignRow.root_id.in_(ended), CampaignRow.root_id.not_in(late)
    )


def _old_calls(before: datetime) -> ColumnElement[bool]:
    """Say which calls nobody goes on with; what led to a champion stays readable."""
    is_of_champion = exists().where(ChampionRow.task_id == CallRow.task_id)
    return CallRow.campaign_id.in_(_over(before)) & ~is_of_champion


def _old_events(before: datetime) -> ColumnElement[bool]:
    return EventRow.campaign_id.in_(_over(before)) & EventRow.kind.in_(_REPEATED)


def _lineages() -> Select[str]:
    """Select every champion and its ancestors."""
    line = (
        select(CandidateRow.id, CandidateRow.task_id, CandidateRow.parent_program_id)
        .join(ChampionRow, ChampionRow.candidate_id == CandidateRow.id)
        .cte("line", recursive=True)
    )
    parent = aliased(CandidateRow)
    return select(
        line.union(
            select(parent.id, parent.task_id, parent.parent_program_id).join(
                line,
                (parent.task_id == line.c.task_id)
                & (parent.program_id == line.c.parent_program_id),
            )
        ).c.id
    )


def _old_evaluations(
    before: datetime, lines: Select[str], doomed: ColumnElement[bool]
) -> Select[str]:
    old = (EvaluationRow.created_at < before) & EvaluationRow.candidate_id.not_in(lines)
    return select(EvaluationRow.id).where(old | doomed)


def _count(session: Session, table: type, condition: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(table).where(condition)) or 0


def _batches(ids: list[str], size: int = 500) -> list[list[str]]:
    return [ids[i : i + size] for i in range(0, len(ids), size)]
