"""Tasks with what was tried for them, added up by the database."""

from collections import Counter
from collections.abc import Collection

from sqlalchemy import ColumnElement, Select, func, literal_column, select
from sqlalchemy.orm import Session

from kernelwright.evaluator.evaluation import Status
from kernelwright.store.browsing.outcomes import task_verdicts
from kernelwright.store.browsing.record import FoundTask, ListedTask
from kernelwright.store.browsing.summary import RIGHT, SUMMARY, summary_of
from kernelwright.store.dialogue import SUMS, spend_of
from kernelwright.store.model_call import Spend
from kernelwright.store.queries.champion import champion_of, freshness_of, speedup_of
from kernelwright.store.record import Champion, Rank, TaskSummary
from kernelwright.store.schema import (
    CallRow,
    CampaignTaskRow,
    CandidateRow,
    ChampionRow,
    EvaluationRow,
    TaskRow,
    TaskWordRow,
    TrialRow,
)

_KINDS = ("measured", "predicted", "traffic")
_NOTHING = Spend(calls=0, tokens=0, microdollars=0)
Runs = Collection[str] | None
"""Ids of a campaign's runs; None means the whole store."""


def listed_tasks(
    session: Session, runs: Runs, device: tuple[str, str] | None = None
) -> tuple[ListedTask, ...]:
    """Return every task of some runs, or of the store, with its champion.

    `device` is a name and a chip, whose champions are meant; without it each task's champion is
    the one that gains most, a measured one before a predicted one.
    """
    tried, right, best = _counted(session, runs)
    champions, spent = _champions(session, device), _spent(session, runs)
    listed = []
    for task in _tasks(session, runs):
        champion = champions.get(task.id)
        state, version = (champion[0].state, champion[1]) if champion else ("", 0)
        listed.append(
            ListedTask.model_validate(
                {
                    "task": task,
                    "tried": tried.get(task.id, 0),
                    "right": right.get(task.id, 0),
                    "best": best.get(task.id),
                    "champion_id": champion[0].candidate_id if champion else None,
                    "device": champion[0].device if champion else "",
                    "chip": champion[0].chip if champion else "",
                    "freshness": freshness_of(state, version) if champion else None,
                    "speedup": speedup_of(champion[0]) if champion else None,
                    "spend": spent.get(task.id, _NOTHING),
                }
            )
        )
    return tuple(listed)


def found_tasks(session: Session, text: str, limit: int) -> tuple[FoundTask, ...]:
    """Return tasks whose words, name, types or id fit a text, those with a champion first."""
    wanted = text.lower()
    by_word = select(TaskWordRow.task_id).where(
        TaskWordRow.word >= wanted, TaskWordRow.word < wanted + "\U0010ffff"
    )
    champion = (
        select(func.max(ChampionRow.candidate_id))
        .where(ChampionRow.task_id == TaskRow.id)
        .scalar_subquery()
    )
    fits: ColumnElement[bool] = TaskRow.id.in_(by_word)
    for column in (TaskRow.name, TaskRow.signature, TaskRow.shapes):
        fits = fits | func.lower(column).contains(wanted, autoescape=True)
    fits = fits | TaskRow.id.startswith(wanted, autoescape=True)
    query = (
        select(*SUMMARY, champion)
        .where(fits)
        .order_by(champion.is_(None), TaskRow.name, TaskRow.id)
        .limit(limit)
    )
    return tuple(
        FoundTask(task=summary_of(row[:5]), champion_id=row[5]) for row in session.execute(query)
    )


def champions(session: Session, task_id: str) -> tuple[Champion, ...]:
    """Return a task's champions, those that gain most first."""
    query = (
        select(ChampionRow, CandidateRow, TaskRow, EvaluationRow.status,
               EvaluationRow.evaluator_version)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(ChampionRow.task_id == task_id)
    )  # fmt: skip
    rows = sorted(session.execute(query), key=lambda row: _gains(row[0]), reverse=True)
    return tuple(champion_of(c, k, t, (status, version)) for c, k, t, status, version in rows)


def graph_json(session: Session, task_id: str) -> str:
    """Return a task's reference graph as JSON."""
    return session.execute(select(TaskRow.graph).where(TaskRow.id == task_id)).scalar_one()


def _tasks(session: Session, runs: Runs) -> list[TaskSummary]:
    query = select(*SUMMARY).order_by(TaskRow.name, TaskRow.id)
    if runs is not None:
        linked = select(CampaignTaskRow.task_id).where(CampaignTaskRow.campaign_id.in_(runs))
        # Runs of older versions are linked to their tasks by what they tried only.
        older = set(runs) - set(session.scalars(_linked_runs(runs)))
        wanted = linked.union(_tried_in(older)) if older else linked
        query = query.where(TaskRow.id.in_(wanted))
    return [summary_of(row[:5]) for row in session.execute(query)]


def _linked_runs(runs: Collection[str]) -> Select[str]:
    links = CampaignTaskRow.campaign_id
    return select(links).where(links.in_(runs)).distinct()


def _tried_in(runs: Collection[str]) -> Select[str]:
    return (
        select(CandidateRow.task_id)
        .join(TrialRow, TrialRow.candidate_id == CandidateRow.id)
        .where(TrialRow.campaign_id.in_(runs))
        .distinct()
    )


def _counted(
    session: Session, runs: Runs
) -> tuple[dict[str, int], dict[str, int], dict[str, Rank]]:
    """Count the candidates that were tried, and those that are right, with the best rank."""
    if runs is None:
        return _tried(session), *_right(session)
    found = task_verdicts(session, runs)
    return (
        {one.task.id: one.tried for one in found},
        {one.task.id: sum(one.verdicts.get(Status(s), 0) for s in RIGHT) for one in found},
        {one.task.id: one.best for one in found if one.best is not None},
    )


def _tried(session: Session) -> dict[str, int]:
    """Count candidates by task; what waits, or was cut off in flight, was not tried."""
    # Grouped by a value and not by a column, SQLite takes the index that holds all that is counted
    # and not the one that is in order.
    task_id = EvaluationRow.task_id.concat(literal_column("''"))
    judged = (
        select(task_id, func.count(EvaluationRow.candidate_id.distinct()))
        .where(EvaluationRow.status > "")
        .group_by(task_id)
    )
    ended = select(TrialRow.candidate_id).where(
        TrialRow.state == "done", TrialRow.evaluation_id.is_(None)
    )
    is_judged = select(EvaluationRow.candidate_id).where(
        EvaluationRow.candidate_id == CandidateRow.id
    )
    failed = (
        select(CandidateRow.task_id, func.count())
        .where(CandidateRow.id.in_(ended), ~is_judged.exists())
        .group_by(CandidateRow.task_id)
    )
    counts: Counter[str] = Counter()
    for query in (judged, failed):
        for task, count in session.execute(query):
            counts[task] += count
    return counts


def _right(session: Session) -> tuple[dict[str, int], dict[str, Rank]]:
    """Count correct candidates, and find the best rank of the best kind, by task."""
    query = select(
        EvaluationRow.task_id,
        EvaluationRow.rank_kind,
        func.count(EvaluationRow.candidate_id.distinct()),
        func.min(EvaluationRow.rank_value),
    ).where(EvaluationRow.status.in_(RIGHT))
    counts: dict[str, int] = {}
    best: dict[str, Rank] = {}
    for task, kind, count, value in session.execute(
        query.group_by(EvaluationRow.task_id, EvaluationRow.rank_kind)
    ):
        counts[task] = counts.get(task, 0) + count
        if kind is None or value is None:
            continue
        known = best.get(task)
        if known is None or _KINDS.index(kind) < _KINDS.index(known.kind):
            best[task] = Rank.model_validate({"kind": kind, "value": value})
    return counts, best


def _champions(
    session: Session, device: tuple[str, str] | None
) -> dict[str, tuple[ChampionRow, int]]:
    query = select(ChampionRow, EvaluationRow.evaluator_version).join(
        EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id
    )
    if device is not None:
        query = query.where(ChampionRow.device == device[0], ChampionRow.chip == device[1])
    chosen: dict[str, tuple[ChampionRow, int]] = {}
    for row, version in session.execute(query):
        known = chosen.get(row.task_id)
        if known is None or _gains(row) > _gains(known[0]):
            chosen[row.task_id] = (row, version)
    return chosen


def _gains(row: ChampionRow) -> tuple[bool, bool, float]:
    return (row.state != "revoked", row.speedup_kind == "measured", row.speedup or 0.0)


def _spent(session: Session, runs: Runs) -> dict[str, Spend]:
    query = select(CallRow.task_id, *SUMS).where(CallRow.task_id.is_not(None))
    if runs is not None:
        query = query.where(CallRow.campaign_id.in_(runs))
    return {
        task: spend_of(*sums)
        for task, *sums in session.execute(query.group_by(CallRow.task_id))
        if task is not None
    }
