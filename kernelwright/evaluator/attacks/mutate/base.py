"""Right programs to break: what the templates make of every catalog task, and the corpus' own."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import mlx.core as mx
import numpy as np

from kernelwright import catalog
from kernelwright.errors import InputError, KernelwrightError, UnsupportedError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize, gather_attention
from kernelwright.ir.passes.resize import Axis, free_dimensions, resize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule, render
from kernelwright.plan.partition import partition

Shapes = Literal["real", "small"]
_DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)
_DTYPES = (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
_CORPUS = "corpus"
_ROWS, _COLUMNS = 6, 96
"""Sizes of a small task's dimensions, and of those that something is reduced over."""
_MOST_SMALL_ELEMENTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Source:
    """Names a task with programs to break, before any of it is made."""

    group: str
    """A group of the catalog, or `corpus`."""
    name: str
    dtype: Dtype | None
    """What the catalog's floats are; None for the corpus, where each task says so itself."""
    shapes: Shapes

    @property
    def label(self) -> str:
        """Name the source for people and seeds."""
        dtype = self.dtype.short if self.dtype else "own"
        return f"{self.group}/{self.name}:{dtype}:{self.shapes}"


@dataclass(frozen=True)
class BaseProgram:
    """A right program, its task, and how it was made."""

    source: Source
    task: Task
    program: Program
    schedule: str


@cache
def sources(shapes: Shapes) -> tuple[Source, ...]:
    """Return every task that has programs to break: the catalog in three dtypes, the corpus."""
    found = [
        Source(entry.group, entry.name, dtype, shapes)
        for entry in catalog.entries()
        for dtype in (_DTYPES if any("T[" in text for text in entry.inputs) else _DTYPES[:1])
    ]
    return (*found, *(Source(_CORPUS, name, None, shapes) for name in bases()))


def programs_of(
    source: Source, random: np.random.Generator, most: int = 3
) -> Iterator[BaseProgram]:
    """Yield at most so many programs of a task: the corpus' own, or some schedules' by chance.

    Parts of a task that one program each computes take turns; of half of them, or where there
    are several programs, the first schedule's is among them.
    """
    if source.group == _CORPUS:
        yield BaseProgram(source, task_of(source.name), bases()[source.name].program, "")
        return
    parts = [part for task in _tasks(source) if (part := _schedules(task))]
    left = most
    for turn, number in enumerate(random.permutation(len(parts))):
        task, found = parts[number]
        share = -(-left // (len(parts) - turn))
        others = tuple(map(int, random.permutation(len(found))))
        starts_first = share > 1 or random.random() < 0.5
        for place in tuple(dict.fromkeys((0, *others) if starts_first else others))[:share]:
            schedule = found[place]
            yield BaseProgram(source, task, lower(task.graph, schedule), render(schedule))
            left -= 1


def _schedules(task: Task) -> tuple[Task, tuple[Schedule, ...]] | None:
    """Return a part of a task with its schedules; None where no template computes it."""
    try:
        return task, tuple(schedules(task.graph, _DEVICE))
    except UnsupportedError:
        return None


def _tasks(source: Source) -> Iterator[Task]:
    """Yield the parts that one program each computes."""
    entry = catalog.find(source.name)
    assert source.dtype is not None
    zeros = [mx.zeros(t.shape, _mlx(t.dtype)) for t in entry.types(source.dtype)]
    with mx.stream(mx.cpu):
        graph = gather_attention(canonicalize(capture(entry.function, *zeros)))
    for region in partition(graph):
        part = region.extract()
        if source.shapes == "small":
            shrunk = smaller(part)
            if shrunk is None:
                continue
            part = shrunk
        yield Task(part, source.name)


def _mlx(dtype: Dtype) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found


def smaller(
    graph: Graph,
    *,
    rows: int = _ROWS,
    columns: int = _COLUMNS,
    most: int = _MOST_SMALL_ELEMENTS,
) -> Graph | None:
    """Return the same computation with so many rows at most, reduced over so many columns.

    None where it cannot be brought below `most` elements.
    """
    sizes: dict[Axis, int] = {}
    for dimension in free_dimensions(graph):
        least = columns if dimension.is_reduced else rows
        if dimension.size <= least:
            continue
        wanted = dimension.axis_sizes(least)
        try:
            resize(graph, {**sizes, **wanted})
        except (InputError, KernelwrightError):
            continue
        sizes.update(wanted)
    shrunk = resize(graph, sizes) if sizes else graph
    return shrunk if shrunk.element_count <= most else None
