"""Champions by task, for dispatch at run time."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation
from kernelwright.metal.kernel import Program
from kernelwright.store.queries.champion import champion_of
from kernelwright.store.record import Champion
from kernelwright.store.schema import CandidateRow, ChampionRow, EvaluationRow, ProgramRow, TaskRow
from kernelwright.store.verdict import read_evaluation


@dataclass(frozen=True)
class ServedProgram:
    """A champion with its program."""

    champion: Champion
    program: Program
    evaluation: Evaluation
    """The verdict that promoted it, without raw timings."""

    @property
    def beats_mlx(self) -> bool:
        """False where MLX's best was measured, or is predicted, to be as fast: it is not run."""
        return self.evaluation.beats_mlx


def served(
    session: Session, task_ids: Collection[str], *, device: str, chip: str
) -> dict[str, ServedProgram]:
    """Return the fresh champion of each task that has one on a chip."""
    is_here = (ChampionRow.device == device) & (ChampionRow.chip == chip)
    return {s.champion.task.id: s for s in fresh_champions(session, task_ids, is_here)}


def fresh_champions(
    session: Session,
    task_ids: Collection[str],
    where: ColumnElement[bool],
    order: Sequence[ColumnElement[bool] | InstrumentedAttribute[str]] = (),
) -> Iterator[ServedProgram]:
    """Yield the champions of tasks that this version's evaluator promoted, with their programs."""
    query = (
        select(ChampionRow, CandidateRow, TaskRow, EvaluationRow, ProgramRow)
        .join(CandidateRow, CandidateRow.id == ChampionRow.candidate_id)
        .join(ProgramRow, ProgramRow.id == CandidateRow.program_id)
        .join(TaskRow, TaskRow.id == ChampionRow.task_id)
        .join(EvaluationRow, EvaluationRow.id == ChampionRow.evaluation_id)
        .where(
            ChampionRow.task_id.in_(task_ids),
            where,
            ChampionRow.state == "fresh",
            EvaluationRow.evaluator_version >= EVALUATOR_VERSION,
        )
        .order_by(*order)
    )
    for champion, candidate, task, verdict, program in session.execute(query):
        yield ServedProgram(
            champion_of(champion, candidate, task, (verdict.status, verdict.evaluator_version)),
            Program.model_validate_json(program.body),
            read_evaluation(verdict.body),
        )
