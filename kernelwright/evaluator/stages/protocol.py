"""What a stage of a verdict is, and the context that stages share."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar, overload

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.oracle.mlx_answer import Closeness
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.facts import Facts
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.stages.verdict import Verdict
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import RunResult
from kernelwright.metal.kernel import Program

if TYPE_CHECKING:
    from kernelwright.evaluator.stages.worker_pool import WorkerPool

T = TypeVar("T")


class Fact(Generic[T]):
    """An attribute of the context that one stage sets and later ones read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Context", owner: type) -> T: ...
    def __get__(self, instance: "Context | None", owner: type) -> "T | Self":
        if instance is None:
            return self
        return instance.facts.read(self._name)  # type: ignore[return-value]

    def __set__(self, instance: "Context", value: T) -> None:
        instance.facts.give(self._name, value)


@dataclass
class Context:
    """One program for one task before one device, and what the stages have found so far."""

    task: Task
    submitted: Program
    """As it was proposed; stages after the first run `program`."""
    config: EvaluatorConfig
    info: DeviceInfo
    verdict: Verdict
    cases: CaseSource
    workers: "WorkerPool"
    tried: int = 1
    """Candidates tried on the task so far, this one included."""
    facts: Facts = field(default_factory=Facts)
    end_later_stages: Callable[[Stage], None] = lambda stage: None
    """Waits until none later than a stage is at work beside it."""

    program = Fact[Program]()
    """The program in normal form."""
    trial = Fact[Trial]()
    """Runs the program on the device."""
    simulated = Fact[Trial]()
    """Runs it on the simulator, which is the same trial where the device is the simulator."""
    suite = Fact[Suite]()
    """The visible cases."""
    sanitized = Fact[tuple[tuple[Reference, RunResult], ...]]()
    """What runs under the sanitizer left, still to be judged."""
    right = Fact[Mapping[int, RunResult]]()
    """What the correct runs left of the cases that run again, by place."""
    closeness = Fact[tuple[Closeness, ...]]()
    """What `mx.allclose` says of each visible case's correct run."""
    raced = Fact[bool | None]()
    """What races against the baselines said; None where nothing is measured."""
    slower_where = Fact[str]()
    """Where a program that is faster in the open is slower unseen; empty where it is not."""

    def wants(self, stage: Stage) -> bool:
        """Say whether the config asks for a stage."""
        return self.config.runs(stage)


class PipelineStage(Protocol):
    """One step of a verdict: a fact about one program, or the `Failure` that ends the verdict.

    A new stage is a file with such a class, an entry in `pipeline.PIPELINE`, and its name in
    `evaluation.Stage` with what it claims.
    """

    name: ClassVar[Stage]
    needs: ClassVar[frozenset[str]] = frozenset()
    """Facts of the context that earlier stages give."""
    gives: ClassVar[frozenset[str]] = frozenset()
    """Facts that later stages may read."""

    @abstractmethod
    def run(self, context: Context) -> str:
        """Judge the program; return one sentence for a person, or none.

        Raises:
            Failure: the program does not pass, and the verdict ends here.
            DeviceError: the machine failed, so that there is no verdict.
        """
