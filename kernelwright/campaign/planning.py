"""From one function to its tasks: capture, canonicalize, cut."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.agents.protocols import Plan, Planner
from kernelwright.campaign.event import FunctionPlanned, FunctionRefused, LeftOperation
from kernelwright.campaign.report import FunctionReport
from kernelwright.campaign.savings import traffic_of
from kernelwright.campaign.subject import Subject
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import (
    Graph,
    Region,
    canonicalize,
    capture,
    gather_attention,
    operation,
)
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import TaskSummary


@dataclass(frozen=True)
class CapturedFunction:
    """A function and its canonical graph, attention whole."""

    subject: Subject
    graph: Graph


@dataclass(frozen=True)
class Captured:
    """What a search is about: functions that were captured, and those that could not be."""

    functions: tuple[CapturedFunction, ...]
    refused: tuple[FunctionRefused, ...] = ()


@dataclass(frozen=True)
class PlannedTask:
    """A task and what it computes in a word or two."""

    task: Task
    signature: str


@dataclass(frozen=True)
class FunctionPlan:
    """A function's graph and the tasks it was cut into, one for each region."""

    subject: Subject
    graph: Graph
    regions: tuple[Region, ...]
    tasks: tuple[PlannedTask, ...]
    left: tuple[LeftOperation, ...]
    author: str

    @property
    def event(self) -> FunctionPlanned:
        """Say what the plan is."""
        return FunctionPlanned(
            function=self.subject.name,
            inputs=_types(self.graph),
            nodes=len(self.graph.nodes),
            tasks=tuple(map(_summary, self.tasks)),
            left=self.left,
            author=self.author,
            place=self.subject.origin,
        )

    @property
    def report(self) -> FunctionReport:
        """Report how the function was cut."""
        return FunctionReport(
            function=self.subject.name,
            inputs=_types(self.graph),
            task_ids=tuple(planned.task.fingerprint for planned in self.tasks),
            left=self.left,
            traffic=traffic_of(self.graph, self.regions),
        )


def capture_subjects(subjects: Iterable[Subject]) -> Captured:
    """Capture every function that can be; nothing is stored and no device is needed.

    Raises:
        InputError: not one can be captured; the first one's reason.
        UnsupportedError: likewise.
    """
    functions: list[CapturedFunction] = []
    refused: list[FunctionRefused] = []
    errors: list[InputError | UnsupportedError] = []
    for subject in subjects:
        try:
            graph = capture(subject.function, *subject.inputs, **subject.keywords)
        except (InputError, UnsupportedError) as e:
            errors.append(e)
            refused.append(FunctionRefused(function=subject.name, reason=str(e)))
        else:
            functions.append(CapturedFunction(subject, gather_attention(canonicalize(graph))))
    if errors and not functions:
        raise errors[0]
    return Captured(tuple(functions), tuple(refused))


def plan_function(function: CapturedFunction, planner: Planner, device: DeviceInfo) -> FunctionPlan:
    """Cut a function's graph into tasks."""
    subject, graph = function.subject, function.graph
    plan = planner.plan(graph, device)
    regions = plan.cut(graph)
    return FunctionPlan(
        subject=subject,
        graph=graph,
        regions=regions,
        tasks=_tasks(subject, regions),
        left=_left(graph, plan),
        author=plan.author,
    )


def _tasks(subject: Subject, regions: Sequence[Region]) -> tuple[PlannedTask, ...]:
    references = [region.extract() for region in regions]
    signatures = [operation(reference) for reference in references]
    if len(references) == 1:
        names = [subject.name]
    else:
        names = [f"{subject.name}/{_short(signature)}" for signature in signatures]
    return tuple(
        PlannedTask(Task(reference, name), signature)
        for reference, name, signature in zip(references, names, signatures, strict=True)
    )


def _short(signature: str) -> str:
    return signature.removeprefix("elementwise:").replace("*", "+")


def _left(graph: Graph, plan: Plan) -> tuple[LeftOperation, ...]:
    """Pair each reason with how often its op is left."""
    covered = {i for planned in plan.regions for i in planned.indices}
    counts = Counter(node.op for i, node in enumerate(graph.nodes) if i not in covered)
    return tuple(
        LeftOperation(op=op, reason=reason, count=max(1, counts[op])) for op, reason in plan.left
    )


def _types(graph: Graph) -> str:
    return ", ".join(map(str, graph.input_types))


def _summary(planned: PlannedTask) -> TaskSummary:
    graph = planned.task.graph
    return TaskSummary(
        id=planned.task.fingerprint,
        name=planned.task.name,
        signature=planned.signature,
        dtype=graph.output_types[0].dtype.value,
        shapes=_types(graph),
    )
