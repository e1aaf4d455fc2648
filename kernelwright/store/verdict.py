"""The verdicts that champions rest on, with their tasks' graphs, many in one question."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelwright.errors import StoreError
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.ir.graph import Graph
from kernelwright.store.schema import CandidateRow, EvaluationRow, TaskRow

_AT_ONCE = 500
"""Ids in one question; SQLite takes 32,766 parameters."""


def read_evaluation(body: str) -> Evaluation:
    """Read an evaluation from its JSON.

    Raises:
        StoreError: another version of Kernelwright wrote it, which knows more or less.
    """
    try:
        return Evaluation.model_validate_json(body)
    except ValidationError as e:
        place = ".".join(map(str, e.errors()[0]["loc"]))
        raise StoreError(
            "the store holds an evaluation that this version of Kernelwright cannot read "
            f"({place}), as a newer one wrote it; upgrade with: pip install --upgrade kernelwright"
        ) from e


@dataclass(frozen=True)
class Verdict:
    """An evaluation without its samples, and its task's graph, both read when they are needed."""

    body: str
    graph_json: str

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation; raw timings are left in the store."""
        return read_evaluation(self.body)

    @property
    def graph(self) -> Graph:
        """The task's graph."""
        return Graph.from_json(self.graph_json)


def verdicts(session: Session, evaluation_ids: Sequence[str]) -> dict[str, Verdict]:
    """Return verdicts by their ids."""
    found: dict[str, Verdict] = {}
    for first in range(0, len(evaluation_ids), _AT_ONCE):
        query = (
            select(EvaluationRow.id, EvaluationRow.body, TaskRow.graph)
            .join(CandidateRow, CandidateRow.id == EvaluationRow.candidate_id)
            .join(TaskRow, TaskRow.id == CandidateRow.task_id)
            .where(EvaluationRow.id.in_(evaluation_ids[first : first + _AT_ONCE]))
        )
        for id_, body, graph in session.execute(query):
            found[id_] = Verdict(body, graph)
    return found
