"""What is judged: template kernels of the catalog, the honest corpus, and every mutant."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import mlx.core as mx

from kernelwright import catalog, ir
from kernelwright.catalog import Entry
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.attacks.corpus import honest, mutants
from kernelwright.evaluator.attacks.honest import honest_kernels
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes.resize import free_dimensions, resize
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule
from kernelwright.plan import partition

Kind = Literal["template", "honest", "mutant"]
KINDS: tuple[Kind, ...] = ("template", "honest", "mutant")
DTYPES = (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
# Odd enough to leave a ragged edge, small enough for a simulator; the first at which the same
# families of kernels compute a task.
_REDUCED_SIZE, _OTHER_SIZES = 200, (12, 40)
_RIGHT = (Status.CORRECT, Status.PROMOTED)
_ANY_DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)


@dataclass(frozen=True)
class Subject:
    """A program for a task, with the verdicts that are right."""

    name: str
    kind: Kind
    task: Task
    program: Program
    expect: tuple[Status, ...] = _RIGHT


@dataclass(frozen=True)
class Selection:
    """Which subjects to judge."""

    kinds: tuple[Kind, ...] = KINDS
    only: tuple[str, ...] = ()
    """Names, or parts of them; all when empty."""
    schedules: int = 2
    """Of each region of a catalog task."""
    is_small: bool = True
    """Judge catalog tasks at small shapes instead of their own."""


def subjects(selection: Selection) -> tuple[tuple[Subject, ...], ...]:
    """Return the chosen subjects, one group for each task, whose cases they share."""
    only = selection.only
    found = [
        subject
        for kind in selection.kinds
        for subject in _of_kind(kind, selection)
        if not only or any(word in subject.name for word in only)
    ]
    ordered = sorted(found, key=lambda s: s.task.fingerprint)
    return tuple(tuple(group) for _, group in groupby(ordered, lambda s: s.task.fingerprint))


def _of_kind(kind: Kind, selection: Selection) -> Iterator[Subject]:
    if kind == "mutant":
        for mutant in mutants():
            yield Subject(mutant.name, kind, mutant.task, mutant.program, mutant.edit.expect)
    elif kind == "honest":
        for name, task, program in honest():
            yield Subject(f"{name}: honest", kind, task, program)
        for kernel in honest_kernels():
            yield Subject(kernel.name, kind, kernel.task, kernel.program)
    else:
        for entry in catalog.entries():
            only = selection.only
            if not only or any(word in entry.name or entry.name in word for word in only):
                for dtype in DTYPES:
                    yield from _templates(entry, dtype, selection)


def _templates(entry: Entry, dtype: Dtype, selection: Selection) -> Iterator[Subject]:
    """Lower every region of a catalog task in some schedules spread over its family's space."""
    zeros = [mx.zeros(t.shape, _mlx(t.dtype)) for t in entry.types(dtype)]
    with mx.stream(mx.cpu):
        graph = ir.gather_attention(ir.canonicalize(ir.capture(entry.function, *zeros)))
    if selection.is_small:
        graph = _small(graph)
    for number, region in enumerate(partition(graph)):
        part = region.extract()
        task = Task(part, entry.name)
        for schedule in _spread(_space(part), selection.schedules):
            try:
                program = lower(part, schedule)
            except KernelwrightError:
                continue
            name = f"{entry.name} {dtype.short} region {number} {schedule}"
            yield Subject(name, "template", task, program)


def _space(graph: Graph) -> tuple[Schedule, ...]:
    """Return every schedule of a region, none where no family computes it."""
    try:
        return schedules(graph, _ANY_DEVICE)
    except KernelwrightError:
        return ()


def _spread(space: tuple[Schedule, ...], count: int) -> Iterator[Schedule]:
    """Yield so many schedules of each family, spread over its part of the space."""
    for _, family in groupby(space, lambda schedule: schedule.family):
        every = list(family)
        step = max(1, len(every) // count)
        yield from dict.fromkeys(every[: step * count : step])


def _small(graph: Graph) -> Graph:
    """Return the same computation at sizes that a simulator runs in no time."""
    families = _families(graph)
    resized = (_resized(graph, size) for size in _OTHER_SIZES)
    return next((small for small in resized if _families(small) == families), graph)


def _resized(graph: Graph, other_size: int) -> Graph:
    for dimension in free_dimensions(graph):
        size = min(dimension.size, _REDUCED_SIZE if dimension.is_reduced else other_size)
        try:
            graph = resize(graph, dimension.axis_sizes(size))
        except KernelwrightError:
            continue
    return graph


def _families(graph: Graph) -> list[set[str]]:
    """Return the families of kernels that compute each region."""
    return [{s.family for s in _space(region.extract())} for region in partition(graph)]


def _mlx(dtype: Dtype) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found
