"""What a judge is asked and answers: all that a verdict depends on but the device, as JSON."""

from typing import Self

from pydantic import SerializeAsAny
from pydantic_core import to_json

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.stated_case import StatedCaughtCase
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph.verify import read_graph
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

AnyCase = StatedCaughtCase | CaughtCase


def to_line(record: Record) -> bytes:
    """Write a record as one line of JSON, numbers that are none included."""
    return to_json(record.model_dump(), inf_nan_mode="constants") + b"\n"


class TaskText(Record):
    """A task as JSON."""

    name: str
    graph: str
    tolerances: tuple[tuple[float, float], ...] = ()
    """Relative and absolute, for each output."""
    variants: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: Task) -> Self:
        """Write a task."""
        return cls(
            name=task.name,
            graph=task.graph.to_json(),
            tolerances=tuple((t.relative, t.absolute) for t in task.tolerances),
            variants=tuple(graph.to_json() for graph in task.variants),
        )

    def task(self) -> Task:
        """Read it back."""
        return Task(
            read_graph(self.graph),
            self.name,
            tuple(Tolerance(*pair) for pair in self.tolerances),
            tuple(map(read_graph, self.variants)),
        )


class JudgeJob(Record):
    """A program to evaluate, with everything that decides its verdict besides the device."""

    task: TaskText
    program: Program
    config: EvaluatorConfig
    tried: int = 1
    cases: tuple[SerializeAsAny[AnyCase], ...] = ()
    """What has caught candidates of the task before."""
    alone: bool = False

    @property
    def confirms(self) -> bool:
        """True when it is put through every stage."""
        return self.config.through is Stage.CONFIRMATION


class JudgeAnswer(Record):
    """A verdict, or why there is none."""

    evaluation: Evaluation | None = None
    cases: tuple[SerializeAsAny[AnyCase], ...] = ()
    """What has caught the candidate, for those after it."""
    failure: str = ""
    """Why there is no evaluation: the device failed."""
    is_outdated: bool = False
    """True when it failed because Kernelwright's files have changed, which no wait mends."""
    error: str = ""
    """Why there is no evaluation: the evaluator failed at this candidate."""
