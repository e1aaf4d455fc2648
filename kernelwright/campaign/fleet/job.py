"""A job of a fleet and its verdict: all that they need, as JSON."""

from importlib.metadata import version
from typing import Self

from pydantic import SerializeAsAny

from kernelwright.digest import digest
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation, Stage
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.stated_case import StatedCaughtCase
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program
from kernelwright.store import Environment

AnyCase = StatedCaughtCase | CaughtCase
_LONGEST_CHIP = 80


def job_version() -> str:
    """Return what a worker must be to judge this program's jobs: another judges differently."""
    return f"{version('kernelwright')}-e{EVALUATOR_VERSION}"


def queue_of(device: DeviceInfo, of_version: str) -> str:
    """Return the queue of the machines with a chip; those of another version have another."""
    chip = device.chip
    if len(chip) > _LONGEST_CHIP:
        chip = f"{chip[: _LONGEST_CHIP - 9]}-{digest(chip)[:8]}"
    return f"{device.name}/{chip}/{of_version}"


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
            Graph.from_json(self.graph),
            self.name,
            tuple(Tolerance(*pair) for pair in self.tolerances),
            tuple(map(Graph.from_json, self.variants)),
        )


class FleetJob(Record):
    """A program to evaluate, with everything that decides its verdict besides the device."""

    id: str
    version: str
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


class FleetVerdict(Record):
    """What a worker answers."""

    environment: Environment
    """The worker's own."""
    worker: str
    """Where it was judged, for people."""
    evaluation: Evaluation | None = None
    cases: tuple[SerializeAsAny[AnyCase], ...] = ()
    """What has caught the candidate, for those after it."""
    failure: str = ""
    """Why there is no evaluation: the device failed."""
    error: str = ""
    """Why there is no evaluation: the evaluator failed at this candidate."""


def job_id(queue: str, task: Task, program: Program, *, confirms: bool) -> str:
    """Return the id of a job: the same work for the same chip is one job."""
    return digest(queue, task.fingerprint, program.id, "confirm" if confirms else "evaluate")
