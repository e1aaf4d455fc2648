"""Who leads a task on a chip, and by how much."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.store.clock import now
from kernelwright.store.finding import index_champion
from kernelwright.store.record import Champion, Freshness
from kernelwright.store.schema import ChampionRow, EnvironmentRow, EvaluationRow
from kernelwright.store.upsert import insert_once
from kernelwright.store.verdict import read_evaluation

RANK_KINDS = ("measured", "predicted", "traffic")
"""What counts more stands first."""


def promote(session: Session, evaluation_id: str) -> None:
    """Make the evaluation's candidate its task's champion on the chip, if it leads."""
    row = session.get_one(EvaluationRow, evaluation_id)
    if row.rank_kind is None or row.rank_value is None:
        return
    chip = session.get_one(EnvironmentRow, row.environment_id).chip
    values = _values(row)
    is_first = insert_once(
        session,
        ChampionRow,
        task_id=row.task_id,
        device=row.device,
        chip=chip,
        crowned_at=now(),
        **values,
    )
    champion = _locked(session, row.task_id, row.device, chip)
    assert champion is not None
    if not is_first:
        if not _leads(row, champion):
            return
        if champion.candidate_id != row.candidate_id:
            champion.crowned_at = now()
        for name, value in values.items():
            setattr(champion, name, value)
    index_champion(session, champion)


def set_freshness(
    session: Session, champion: Champion, freshness: Freshness, evaluation_id: str | None
) -> bool:
    """Give a champion its new state and verdict; False when another leads by now."""
    row = _locked(session, champion.task.id, champion.device, champion.chip)
    if row is None or row.candidate_id != champion.candidate_id:
        return False
    if evaluation_id is not None:
        verdict = session.get_one(EvaluationRow, evaluation_id)
        values = _values(verdict)
        if verdict.rank_kind is None or verdict.rank_value is None:
            # What failed is no comparison; the champion keeps what it reached.
            kept = ("evaluation_id", "environment_id")
            values = {name: value for name, value in values.items() if name in kept}
        for name, value in values.items():
            setattr(row, name, value)
    row.state = freshness
    return True


def _values(verdict: EvaluationRow) -> dict[str, object]:
    """Return what a champion repeats of its verdict."""
    least = read_evaluation(verdict.body).least_speedup
    return {
        "candidate_id": verdict.candidate_id,
        "evaluation_id": verdict.id,
        "environment_id": verdict.environment_id,
        "state": "fresh",
        "rank_kind": verdict.rank_kind,
        "rank_value": verdict.rank_value,
        "speedup": least.ratio if least else None,
        "speedup_lower": least.lower if least else None,
        "speedup_upper": least.upper if least else None,
        "speedup_kind": least.kind if least else None,
        "baseline": least.baseline if least else None,
    }


def _locked(session: Session, task_id: str, device: str, chip: str) -> ChampionRow | None:
    return session.scalar(
        select(ChampionRow)
        .where(
            ChampionRow.task_id == task_id, ChampionRow.device == device, ChampionRow.chip == chip
        )
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def _leads(row: EvaluationRow, champion: ChampionRow) -> bool:
    # A champion of another environment is stale at best: nothing it reached counts here.
    if champion.state != "fresh" or champion.environment_id != row.environment_id:
        return True
    assert row.rank_kind is not None
    assert row.rank_value is not None
    mine = (RANK_KINDS.index(row.rank_kind), row.rank_value, row.candidate_id)
    # Of equals the one with the smaller id leads, whichever was confirmed first.
    best = (RANK_KINDS.index(champion.rank_kind), champion.rank_value, champion.candidate_id)
    return mine < best
