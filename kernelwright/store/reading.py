"""Reads from the store: champions, history, one candidate, what is known already."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, Row, RowMapping, func, select
from sqlalchemy.orm import Session, defer

from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation, Samples, Status
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.kernel import Program
from kernelwright.store.record import (
    Campaign,
    Candidate,
    CandidateDetail,
    Champion,
    ChampionSpeedup,
    Environment,
    HistoryEntry,
    KnownEvaluation,
    LoggedEvent,
    Rank,
    TaskSummary,
    Trial,
    with_samples,
)
from kernelwright.store.schema import (
    EVERY,
    LONGEST_INDEXED_SHAPES,
    Base,
    CampaignRow,
    CandidateRow,
    ChampionRow,
    ChampionWordRow,
    EnvironmentRow,
    EvaluationRow,
    EventRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TrialRow,
)

SHORTEST_PREFIX = 4


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
    """Return champions, the most recently crowned first, or those that gain most."""
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


def _speedup(found: RowMapping) -> dict[str, object] | None:
    if found["speedup"] is None:
        return None
    return {
        "kind": found["speedup_kind"],
        "baseline": found["baseline"],
        "ratio": found["speedup"],
        "lower": found["speedup_lower"],
        "upper": found["speedup_upper"],
    }


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
            "speedup": _speedup(found),
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
) -> dict[str, KnownEvaluation]:
    """Return the newest verdict on each candidate that has one in this environment."""
    rows = session.scalars(
        select(EvaluationRow)
        .where(
            EvaluationRow.candidate_id.in_(candidate_ids),
            EvaluationRow.environment_id == environment_id,
            EvaluationRow.evaluator_version == evaluator_version,
        )
        .order_by(EvaluationRow.created_at)
    )
    newest = {row.candidate_id: row for row in rows}
    return {id_: known_evaluation(session, row) for id_, row in newest.items()}


def tried(session: Session, task_id: str) -> int:
    """Count the candidates of a task."""
    query = select(func.count()).where(CandidateRow.task_id == task_id)
    return session.scalar(query) or 0


def known_evaluation(session: Session, row: EvaluationRow) -> KnownEvaluation:
    """Read one evaluation back, its samples put in place."""
    samples = session.scalars(
        select(SampleSetRow).where(SampleSetRow.evaluation_id == row.id).order_by(SampleSetRow.arm)
    )
    sets = tuple(
        Samples(arm=s.arm, nanoseconds=tuple(np.frombuffer(s.nanoseconds, dtype="<f8").tolist()))
        for s in samples
    )
    return KnownEvaluation(
        id=row.id,
        evaluation=with_samples(Evaluation.model_validate_json(row.body), sets),
        rank=rank_of_columns(row.rank_kind, row.rank_value),
        created_at=row.created_at,
    )


def campaigns(session: Session, limit: int) -> tuple[Campaign, ...]:
    """Return campaigns, newest first."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .order_by(CampaignRow.started_at.desc())
        .limit(limit)
    )
    return tuple(campaign_of(row, e) for row, e in session.execute(query))


def runs(session: Session, root_id: str) -> tuple[Campaign, ...]:
    """Return the runs of a campaign, the first one first."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .where(CampaignRow.root_id == root_id)
        .order_by(CampaignRow.started_at)
    )
    return tuple(campaign_of(row, e) for row, e in session.execute(query))


def root_to_continue(
    session: Session, name: str, continues: Callable[[Campaign], bool]
) -> str | None:
    """Return the campaign of the newest run of a name that is to be continued."""
    query = (
        select(CampaignRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == CampaignRow.environment_id)
        .where(CampaignRow.name == name)
        .order_by(CampaignRow.started_at.desc())
    )
    for row, environment in session.execute(query):
        run = campaign_of(row, environment)
        if continues(run):
            return None if run.state == "finished" else run.root_id
    return None


def campaign(session: Session, campaign_id: str) -> Campaign:
    """Return one campaign."""
    row = session.get_one(CampaignRow, campaign_id)
    return campaign_of(row, session.get_one(EnvironmentRow, row.environment_id))


def events(
    session: Session, campaign_id: str, after: int, kinds: Collection[str]
) -> tuple[LoggedEvent, ...]:
    """Return a run's log, oldest first, from behind a cursor."""
    query = (
        select(EventRow)
        .where(EventRow.campaign_id == campaign_id, EventRow.id > after)
        .order_by(EventRow.id)
    )
    if kinds:
        query = query.where(EventRow.kind.in_(kinds))
    return tuple(
        LoggedEvent(id=r.id, campaign_id=r.campaign_id, at=r.at, kind=r.kind, body=r.body)
        for r in session.scalars(query)
    )


def resolve_candidate(session: Session, prefix: str) -> str:
    """Find the one candidate whose id begins with `prefix`.

    Raises:
        InputError: none or several do, or the prefix is too short to mean one.
    """
    return _resolve(session, CandidateRow, "candidate", prefix)


def resolve_campaign(session: Session, prefix: str) -> str:
    """Find the one campaign whose id begins with `prefix`."""
    return _resolve(session, CampaignRow, "campaign", prefix)


def resolve_task(session: Session, prefix: str) -> str:
    """Find the one task whose fingerprint begins with `prefix`."""
    return _resolve(session, TaskRow, "task", prefix)


def _resolve(
    session: Session,
    table: type[CandidateRow] | type[CampaignRow] | type[TaskRow],
    noun: str,
    prefix: str,
) -> str:
    if len(prefix) < SHORTEST_PREFIX or not set(prefix.lower()) <= set("0123456789abcdef"):
        raise InputError(
            f"expected at least {SHORTEST_PREFIX} hexadecimal digits of a {noun}'s id, "
            f"found {prefix!r}; `kernelwright best` and `history` list them."
        )
    wanted = prefix.lower()
    # A range, not LIKE, so that every database uses the primary key's index.
    query = select(table.id).where(table.id >= wanted, table.id < wanted + "g").limit(6)
    found: Sequence[str] = session.scalars(query).all()
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            f"no {noun} in the store has an id that begins with {prefix!r}; "
            "`kernelwright history` lists what there is."
        )
    listed = ", ".join(id_[: len(wanted) + 4] for id_ in found[:5])
    raise InputError(f"{prefix!r} begins several ids ({listed}); give more digits.")


def campaign_of(row: CampaignRow, environment: EnvironmentRow) -> Campaign:
    """Read a campaign's row."""
    return Campaign.model_validate(
        {
            "id": row.id,
            "root_id": row.root_id,
            "name": row.name,
            "state": row.state,
            "spec": row.spec,
            "environment": Environment.model_validate_json(environment.body),
            "owner": row.owner,
            "started_at": row.started_at,
            "heartbeat_at": row.heartbeat_at,
            "elapsed_s": row.elapsed_s,
            "ended_at": row.ended_at,
        }
    )


def trial_of(row: TrialRow) -> Trial:
    """Read a trial's row."""
    return Trial.model_validate(
        {
            "id": row.id,
            "campaign_id": row.campaign_id,
            "candidate_id": row.candidate_id,
            "state": row.state,
            "attempts": row.attempts,
            "lease_owner": row.lease_owner,
            "lease_expires_at": row.lease_expires_at,
            "evaluation_id": row.evaluation_id,
        }
    )


def row_counts(session: Session) -> dict[str, int]:
    """Count every table's rows."""
    return {
        table.name: session.scalar(select(func.count()).select_from(table)) or 0
        for table in Base.metadata.sorted_tables
    }


def rank_of_columns(kind: str | None, value: float | None) -> Rank | None:
    """Return a rank as a record; None where nothing was ranked."""
    return None if kind is None else Rank.model_validate({"kind": kind, "value": value})


def _summary(task: TaskRow) -> TaskSummary:
    return TaskSummary(
        id=task.id,
        name=task.name,
        signature=task.signature,
        dtype=task.dtype,
        shapes=task.shapes,
    )


def _candidate(row: CandidateRow, task: TaskRow) -> Candidate:
    return Candidate(
        id=row.id,
        task=_summary(task),
        program_id=row.program_id,
        author=row.author,
        idea=row.idea,
        schedule=row.schedule,
        parent_program_id=row.parent_program_id,
        campaign_id=row.campaign_id,
        created_at=row.created_at,
    )


def freshness_of(state: str, evaluator_version: int) -> str:
    """Return a champion's state; what an earlier evaluator called fresh is stale."""
    return "stale" if state == "fresh" and evaluator_version < EVALUATOR_VERSION else state


def speedup_of(row: ChampionRow) -> ChampionSpeedup | None:
    """Return what a champion gains; None where nothing was compared."""
    if row.speedup is None:
        return None
    return ChampionSpeedup.model_validate(
        {
            "kind": row.speedup_kind,
            "baseline": row.baseline,
            "ratio": row.speedup,
            "lower": row.speedup_lower,
            "upper": row.speedup_upper,
        }
    )


def champion_of(
    row: ChampionRow, candidate: CandidateRow, task: TaskRow, verdict: tuple[str, int]
) -> Champion:
    """Return a champion as a record; `verdict` is its status and its evaluator's version."""
    status, evaluator_version = verdict
    return Champion.model_validate(
        {
            "task": _summary(task),
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


def entry_of(
    trial: TrialRow, candidate: CandidateRow, task: TaskRow, evaluation: EvaluationRow | None
) -> HistoryEntry:
    """Return a trial as a row of the history."""
    return HistoryEntry.model_validate(
        {
            "campaign_id": trial.campaign_id,
            "candidate_id": candidate.id,
            "task": _summary(task),
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
