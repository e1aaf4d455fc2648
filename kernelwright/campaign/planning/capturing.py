"""From one function to its tasks: capture, canonicalize, cut."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright import ir
from kernelwright.agents.offline.planner import AUTHOR as OFFLINE
from kernelwright.agents.offline.planner import OfflinePlanner
from kernelwright.agents.protocols import Plan, Planner
from kernelwright.campaign.event import FunctionPlanned, FunctionRefused, LeftOperation
from kernelwright.campaign.planning.function_work import FunctionWork
from kernelwright.campaign.planning.plan_check import REASON, worthwhile
from kernelwright.campaign.planning.traffic import traffic_of
from kernelwright.campaign.planning.work_count import count_work
from kernelwright.campaign.report.search_report import FunctionReport
from kernelwright.campaign.spec.input_text import assumed_sizes
from kernelwright.campaign.spec.subject import Subject
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import (
    Graph,
    Region,
    canonicalize,
    gather_attention,
    operation,
    region_names,
    shared_name,
)
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.failure import described, is_machines
from kernelwright.store import TaskSummary


@dataclass(frozen=True)
class CapturedFunction:
    """A function and its canonical graph, attention whole."""

    subject: Subject
    graph: Graph
    remarks: tuple[str, ...] = ()
    """Sentences on what the graph does not keep."""


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
    label: str
    """What the user's source calls this region; the function's name where it is the only one."""


@dataclass(frozen=True)
class FunctionPlan:
    """A function's graph and the tasks it was cut into, one for each region."""

    subject: Subject
    graph: Graph
    regions: tuple[Region, ...]
    tasks: tuple[PlannedTask, ...]
    left: tuple[LeftOperation, ...]
    author: str

    @cached_property
    def work(self) -> FunctionWork:
        """Count what MLX does for one call."""
        return count_work(self.graph, self.regions)

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
            written=self.subject.written,
            work=self.work,
        )

    @property
    def report(self) -> FunctionReport:
        """Report how the function was cut."""
        return FunctionReport(
            function=self.subject.name,
            place=self.subject.place,
            inputs=_types(self.graph),
            task_ids=tuple(planned.task.fingerprint for planned in self.tasks),
            left=self.left,
            traffic=traffic_of(self.graph, self.regions),
            work=self.work,
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
        remarks: list[str] = list(assumed_sizes(subject.written))
        try:
            graph = ir.capture_labelled(
                subject.function, subject.inputs, subject.keywords, remarks.append
            )
            whole = gather_attention(canonicalize(graph))
            _check_has_elements(graph, whole, subject.name)
        except (InputError, UnsupportedError) as e:
            errors.append(e)
            refused.append(FunctionRefused(function=subject.name, reason=str(e)))
        else:
            functions.append(CapturedFunction(subject, whole, tuple(remarks)))
    if errors and not functions:
        raise errors[0]
    return Captured(tuple(functions), tuple(refused))


def _check_has_elements(graph: Graph, whole: Graph, name: str) -> None:
    """Refuse a call that computes on its empty arrays; one may be joined to others, as a cache is.

    Raises:
        InputError: it names such an array.
    """
    pairs = zip(graph.input_names(), graph.input_types, strict=True)
    empty = [f"{each} ({type_})" for each, type_ in pairs if not type_.size]
    made = [graph.types[v].size for v in graph.outputs if v not in graph.inputs]
    touched = (v for node in whole.nodes for v in (*node.inputs, *node.outputs))
    # MLX computes nothing of what is empty: softmax returns the very array.
    is_empty = not any(graph.types[v].size for v in graph.outputs)
    if empty and (is_empty or not all((*made, *(whole.types[v].size for v in touched)))):
        raise InputError(
            f"{name} computes on {empty[0]}, which has no elements, and a GPU launches nothing "
            "for none; expected sizes of at least 1: an export runs others as they are written."
        )


def plan_function(function: CapturedFunction, planner: Planner, device: DeviceInfo) -> FunctionPlan:
    """Cut a function's graph into tasks; one that the planner fails at stays with MLX.

    Where no region of a model's cut is worth a kernel, the offline planner cuts.
    """
    subject, graph = function.subject, function.graph
    try:
        plan = planner.plan(graph, device)
    except Exception as e:
        if is_machines(e):
            raise
        plan = Plan(regions=(), left=((_WHOLE, described(e)),), author=_NOBODY)
    regions = worthwhile(graph, plan.cut(graph))
    if plan.regions and not regions and plan.author != OFFLINE:
        return plan_function(function, OfflinePlanner(), device)
    return FunctionPlan(
        subject=subject,
        graph=graph,
        regions=regions,
        tasks=cut_tasks(subject, graph, regions),
        left=_left(graph, plan, regions),
        author=plan.author,
    )


def cut_tasks(subject: Subject, graph: Graph, regions: Sequence[Region]) -> tuple[PlannedTask, ...]:
    """Name each region of a function, and take it as a task."""
    references = [region.extract() for region in regions]
    labels = region_names(graph, regions) if len(regions) > 1 else (subject.name,)
    alike: dict[str, list[str]] = {}
    for reference, label in zip(references, labels, strict=False):
        alike.setdefault(reference.fingerprint, []).append(label)
    shared = {fingerprint: shared_name(found) for fingerprint, found in alike.items()}
    names = [shared[reference.fingerprint] for reference in references]
    if len(regions) > 1:
        names = [f"{subject.name}/{name}" for name in names]
    return tuple(
        PlannedTask(Task(reference, name), operation(reference), label)
        for reference, name, label in zip(references, names, labels, strict=False)
    )


_WHOLE = "the whole function"
_NOBODY = "nobody"


def _left(graph: Graph, plan: Plan, regions: Sequence[Region]) -> tuple[LeftOperation, ...]:
    """Pair each reason with how often its op is left, by the planner or because MLX is better."""
    covered = {i for planned in plan.regions for i in planned.indices}
    counts = Counter(node.op for i, node in enumerate(graph.nodes) if i not in covered)
    left = [
        LeftOperation(op=op, reason=reason, count=max(1, counts[op])) for op, reason in plan.left
    ]
    dropped = covered - {i for region in regions for i in region.indices}
    ops = [graph.nodes[i].op for i in sorted(dropped)]
    again = Counter(op for op in ops if op_named(op).kind is not Kind.VIEW)
    return (*left, *(LeftOperation(op=op, reason=REASON, count=n) for op, n in again.items()))


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
