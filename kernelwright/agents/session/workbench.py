"""Where tools have programs judged: the evaluator's open half, and what else is known of a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.inputs.stated_case import Recipe, StatedCase
from kernelwright.evaluator.oracle.reference import prepare
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program


@dataclass(frozen=True)
class Sibling:
    """A champion of another task that may be worth a look."""

    name: str
    task: str
    """The other task with its inputs' types, as people read it."""
    idea: str
    program: Program


class Workbench(Protocol):
    """Judges programs for tools. Nothing that it returns rests on a hidden case."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of the open stages, timing included.

        Raises:
            BudgetError: no more evaluations may be run.
            DeviceError: the device or the machine failed.
        """

    def siblings(self, task: Task) -> Sequence[Sibling]:
        """Return champions of tasks of the same family, nearest first."""


class EvaluatorWorkbench:
    """A workbench over one evaluator, for those who keep no store."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._evaluator.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of the stages that the evaluator's config asks for."""
        return self._evaluator.evaluate(task, program)

    def siblings(self, task: Task) -> Sequence[Sibling]:
        """Return nothing: there is no store."""
        return ()


def expected_outputs(task: Task, recipe: Recipe) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return stated inputs, and what the oracle says must come out; no secret is involved.

    Raises:
        InputError: the recipe makes no inputs of the task.
    """
    case = StatedCase.of(task.graph, recipe)
    reference = prepare(case, task.output_tolerances, "stated")
    return reference.inputs, tuple(wanted.expected for wanted in reference.expected_outputs)
