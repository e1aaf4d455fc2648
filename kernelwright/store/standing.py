"""Whether champions still hold: where they were judged, and what a later verdict makes of them."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.store.reading import champion_of
from kernelwright.store.record import Champion, Environment, Freshness
from kernelwright.store.schema import (
    CandidateRow,
    ChampionRow,
    EnvironmentRow,
    EvaluationRow,
    ProgramRow,
    TaskRow,
)


@dataclass(frozen=True)
class Standing:
    """A champion with where its verdict holds, and everything to judge it again."""

    champion: Champion
    environment: Environment
    evaluator_version: int
    task: Task
    program: Program


def standings(session: Session) -> tuple[Standing, ...]:
    """Return every champion, the longest crowned first."""
    query = (
        select(ChampionRow, CandidateRow, TaskRow, EvaluationRow, EnvironmentRow, ProgramRow)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .join(EnvironmentRow, EnvironmentRow.id == ChampionRow.environment_id)
        .join(ProgramRow, ProgramRow.id == CandidateRow.program_id)
        .order_by(ChampionRow.crowned_at, ChampionRow.task_id)
    )
    return tuple(
        Standing(
            champion_of(
                champion, candidate, task, (evaluation.status, evaluation.evaluator_version)
            ),
            Environment.model_validate_json(environment.body),
            evaluation.evaluator_version,
            Task(Graph.from_json(task.graph), task.name),
            Program.model_validate_json(program.body),
        )
        for champion, candidate, task, evaluation, environment, program in session.execute(query)
    )


def settle(
    session: Session, champion: Champion, freshness: Freshness, evaluation_id: str | None
) -> bool:
    """Give a champion its new state and verdict; False when another took the crown meanwhile."""
    row = session.get(ChampionRow, (champion.task.id, champion.device, champion.chip))
    if row is None or row.candidate_id != champion.candidate_id:
        return False
    row.state = freshness
    if evaluation_id is not None:
        verdict = session.get_one(EvaluationRow, evaluation_id)
        row.evaluation_id = verdict.id
        row.environment_id = verdict.environment_id
        if verdict.rank_kind is not None and verdict.rank_value is not None:
            row.rank_kind, row.rank_value = verdict.rank_kind, verdict.rank_value
    return True
