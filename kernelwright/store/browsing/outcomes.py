"""What became of the candidates of some runs, added up by the database."""

from collections import Counter
from collections.abc import Collection

from sqlalchemy import ColumnElement, Select, Subquery, case, func, literal, select
from sqlalchemy.orm import Session, defer

from kernelwright.evaluator.evaluation import Status
from kernelwright.store.browsing.record import (
    FailedVerdicts,
    Improvement,
    ModelSpend,
    TaskVerdicts,
    UnusableReplies,
)
from kernelwright.store.browsing.summary import RIGHT, summaries
from kernelwright.store.commands.champion import RANK_KINDS
from kernelwright.store.dialogue import SUMS, spend_of
from kernelwright.store.queries.candidate import entry_of
from kernelwright.store.record import HistoryEntry, Rank
from kernelwright.store.schema import CallRow, CandidateRow, EvaluationRow, TaskRow, TrialRow

_STOPS = ("refused", "truncated")
_OPEN = ("evaluating", "confirming", "intended")


def task_verdicts(session: Session, runs: Collection[str]) -> tuple[TaskVerdicts, ...]:
    """Count each task's candidates by their verdicts, and find the best of the right ones.

    A candidate counts once, by its last verdict.
    """
    tried: dict[str, int] = {}
    verdicts: dict[str, dict[Status, int]] = {}
    best: dict[str, Rank] = {}
    for task, status, rank_kind, count, value in session.execute(_by_verdict(runs)):
        tried[task] = tried.get(task, 0) + count
        counts = verdicts.setdefault(task, {})
        counts[Status(status)] = counts.get(Status(status), 0) + count
        if rank_kind is not None and value is not None:
            rank = Rank.model_validate({"kind": rank_kind, "value": value})
            best[task] = min(best.get(task, rank), rank, key=_order)
    for state, task, count in session.execute(_without_verdict(runs)):
        tried[task] = tried.get(task, 0) + (count if state == "done" else 0)
        verdicts.setdefault(task, {})
    known = summaries(session, list(verdicts))
    return tuple(
        TaskVerdicts(task=known[id_], tried=tried[id_], verdicts=found, best=best.get(id_))
        for id_, found in verdicts.items()
    )


def _by_verdict(runs: Collection[str]) -> Select[str, str, str | None, int, float | None]:
    """Count last turns by task, verdict and kind of rank, with the best rank."""
    latest = _latest(runs)
    kind = case((EvaluationRow.status.in_(RIGHT), EvaluationRow.rank_kind))
    groups = (EvaluationRow.task_id, EvaluationRow.status, kind)
    # Every verdict has a status; asked for it, SQLite reads the index that holds the sum's columns,
    # and not the row of each verdict.
    is_verdict = (EvaluationRow.id == latest.c.evaluation_id) & (EvaluationRow.status > "")
    return (
        select(*groups, func.count(), func.min(EvaluationRow.rank_value))
        .select_from(latest)
        .join(EvaluationRow, is_verdict)
        .where(latest.c.place == 1)
        .group_by(*groups)
    )


def _without_verdict(runs: Collection[str]) -> Select[str, str, int]:
    """Count last turns that left no verdict, by state and task."""
    latest = _latest(runs)
    turns = (
        select(latest.c.candidate_id, latest.c.state)
        .where(latest.c.place == 1, latest.c.evaluation_id.is_(None))
        .subquery()
    )
    return (
        select(turns.c.state, CandidateRow.task_id, func.count())
        .select_from(turns)
        .join(CandidateRow, CandidateRow.id == turns.c.candidate_id)
        .group_by(turns.c.state, CandidateRow.task_id)
    )


def improvements(session: Session, runs: Collection[str]) -> tuple[Improvement, ...]:
    """Return every right candidate that was better than all of its task before it, in order."""
    ranked = (
        select(
            EvaluationRow.task_id,
            TrialRow.campaign_id,
            TrialRow.created_at,
            EvaluationRow.rank_kind,
            EvaluationRow.rank_value,
            func.min(EvaluationRow.rank_value)
            .over(
                partition_by=EvaluationRow.task_id,
                order_by=(TrialRow.created_at, TrialRow.id),
                rows=(None, -1),
            )
            .label("before"),
        )
        .join(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
        .where(
            TrialRow.campaign_id.in_(runs),
            EvaluationRow.status.in_(RIGHT),
            EvaluationRow.rank_value.is_not(None),
        )
        .subquery()
    )
    query = (
        select(ranked)
        .where(ranked.c.before.is_(None) | (ranked.c.rank_value < ranked.c.before))
        .order_by(ranked.c.created_at)
    )
    return tuple(
        Improvement.model_validate(
            {
                "task_id": row.task_id,
                "run_id": row.campaign_id,
                "at": row.created_at,
                "rank": {"kind": row.rank_kind, "value": row.rank_value},
            }
        )
        for row in session.execute(query)
    )


def failures(session: Session, runs: Collection[str]) -> tuple[FailedVerdicts, ...]:
    """Return each kind of failure with its count and an example, the most frequent first.

    One that somebody mended teaches most; else the one that says most about itself.
    """
    latest = _latest(runs)
    mended = _mended(latest)
    is_mended = mended.c.parent_program_id.is_not(None)
    order = (
        is_mended.desc(),
        func.length(EvaluationRow.summary).desc(),
        latest.c.created_at,
        latest.c.candidate_id,
    )
    failed = (
        select(
            latest.c.trial_id,
            EvaluationRow.status,
            is_mended.label("is_mended"),
            func.count().over(partition_by=EvaluationRow.status).label("number"),
            func.row_number().over(partition_by=EvaluationRow.status, order_by=order).label("nth"),
        )
        .select_from(latest)
        .join(CandidateRow, CandidateRow.id == latest.c.candidate_id)
        .join(EvaluationRow, EvaluationRow.id == latest.c.evaluation_id)
        .outerjoin(
            mended,
            (mended.c.task_id == CandidateRow.task_id)
            & (mended.c.parent_program_id == CandidateRow.program_id),
        )
        .where(latest.c.place == 1, EvaluationRow.status.not_in(RIGHT))
        .subquery()
    )
    rows = session.execute(select(failed).where(failed.c.nth == 1)).all()
    examples = _entries(session, TrialRow.id.in_([row.trial_id for row in rows]))
    by_status = {entry.status: entry for entry in examples}
    found = [
        FailedVerdicts(
            status=Status(row.status),
            count=row.number,
            example=by_status[Status(row.status)],
            was_mended=bool(row.is_mended),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda f: -f.count))


def open_trials(session: Session, runs: Collection[str]) -> tuple[HistoryEntry, ...]:
    """Return the trials without an end, in the order in which they were proposed."""
    return _entries(session, TrialRow.campaign_id.in_(runs) & TrialRow.state.in_(_OPEN))


def turns_of(
    session: Session, runs: Collection[str], candidates: Collection[str]
) -> tuple[HistoryEntry, ...]:
    """Return all turns of a few candidates in some runs, in order."""
    return _entries(session, TrialRow.campaign_id.in_(runs) & TrialRow.candidate_id.in_(candidates))


def evaluations_begun(session: Session, runs: Collection[str]) -> int:
    """Count the trials of some runs that were begun, those with a known verdict aside."""
    query = select(func.count()).where(
        TrialRow.campaign_id.in_(runs), TrialRow.state != "intended", ~TrialRow.reused
    )
    return session.scalar(query) or 0


def model_spend(session: Session, runs: Collection[str]) -> tuple[ModelSpend, ...]:
    """Add up calls, tokens and costs by task and model."""
    query = (
        select(CallRow.task_id, CallRow.provider, CallRow.model, *SUMS)
        .where(CallRow.campaign_id.in_(runs))
        .group_by(CallRow.task_id, CallRow.provider, CallRow.model)
    )
    return tuple(
        ModelSpend(task_id=task, model=f"{provider}:{model}", spend=spend_of(*sums))
        for task, provider, model, *sums in session.execute(query)
    )


def unusable_replies(session: Session, runs: Collection[str]) -> tuple[UnusableReplies, ...]:
    """Count the replies to calls that were of no use, by model and cause."""
    # As the agents write it; in what a model says the quotes are escaped.
    refused, cut_off = (CallRow.reply.contains(f'"stop":"{stop}"') for stop in _STOPS)
    cause = case((refused, "refused"), (cut_off, "cut off"), else_=CallRow.failure)
    query = select(CallRow.provider, CallRow.model, cause).where(
        CallRow.campaign_id.in_(runs), refused | cut_off | (CallRow.failure != "")
    )
    counts = Counter(
        (f"{provider}:{model}", (told or "").partition(":")[0])
        for provider, model, told in session.execute(query)
    )
    return tuple(
        UnusableReplies(model=model, cause=told, count=count)
        for (model, told), count in sorted(counts.items())
    )


def _latest(runs: Collection[str]) -> Subquery:
    """Return candidates' turns; at place 1 is the last that has a verdict, else the last.

    In one run a candidate has one turn, and nothing is to be sorted.
    """
    place: ColumnElement[int] = literal(1)
    if len(runs) > 1:
        order = (
            case((TrialRow.evaluation_id.is_(None), 1), else_=0),
            TrialRow.created_at.desc(),
            TrialRow.id,
        )
        place = func.row_number().over(partition_by=TrialRow.candidate_id, order_by=order)
    return (
        select(
            TrialRow.id.label("trial_id"),
            TrialRow.candidate_id,
            TrialRow.state,
            TrialRow.evaluation_id,
            TrialRow.created_at,
            place.label("place"),
        )
        .where(TrialRow.campaign_id.in_(runs))
        .subquery()
    )


def _mended(latest: Subquery) -> Subquery:
    """Return the programs from which right candidates descend, by task."""
    return (
        select(CandidateRow.task_id, CandidateRow.parent_program_id)
        .select_from(latest)
        .join(CandidateRow, CandidateRow.id == latest.c.candidate_id)
        .join(EvaluationRow, EvaluationRow.id == latest.c.evaluation_id)
        .where(
            latest.c.place == 1,
            EvaluationRow.status.in_(RIGHT),
            CandidateRow.parent_program_id.is_not(None),
        )
        .distinct()
        .subquery()
    )


def _entries(session: Session, chosen: ColumnElement[bool]) -> tuple[HistoryEntry, ...]:
    query = (
        select(TrialRow, CandidateRow, TaskRow, EvaluationRow)
        .join(CandidateRow, CandidateRow.id == TrialRow.candidate_id)
        .join(TaskRow, TaskRow.id == CandidateRow.task_id)
        .outerjoin(EvaluationRow, EvaluationRow.id == TrialRow.evaluation_id)
        .options(defer(TaskRow.graph), defer(EvaluationRow.body))
        .where(chosen)
        .order_by(TrialRow.created_at, TrialRow.id)
    )
    return tuple(entry_of(t, c, k, e) for t, c, k, e in session.execute(query))


def _order(rank: Rank) -> tuple[int, float]:
    return RANK_KINDS.index(rank.kind), rank.value
