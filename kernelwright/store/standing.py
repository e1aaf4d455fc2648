"""Whether champions still hold: where they were judged, and what a later verdict makes of them."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.store.queries.champion import champion_of
from kernelwright.store.record import Champion, Environment
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
    """Return every champion, the longest promoted first."""
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
