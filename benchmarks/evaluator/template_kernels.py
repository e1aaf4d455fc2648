"""What the templates make of the shipped examples and of the catalog: none may be refused."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import mlx.core as mx

from kernelwright import catalog
from kernelwright.campaign.spec.search_target import load_subjects
from kernelwright.catalog.entry import Entry
from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.attacks.honest import HonestKernel
from kernelwright.evaluator.attacks.mutate.base import smaller
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize, gather_attention
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import render
from kernelwright.plan.partition import partition

EXAMPLES = Path(__file__).parents[2] / "examples"
_DTYPES = (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
_DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)
_SCHEDULES = 3
_MOST_ELEMENTS = 1 << 18
"""Larger tasks have fewer rows here; up to this size each kind of input is a case of its own."""
_ROWS, _COLUMNS = 48, 768

Function = Callable[..., object]


@cache
def example_kernels() -> tuple[HonestKernel, ...]:
    """Return the first schedules of each part of each example, in every floating dtype."""
    return tuple(
        kernel
        for path in sorted(EXAMPLES.glob("*.py"))
        for dtype in _DTYPES
        for kernel in _of_example(path, dtype)
    )


@cache
def catalog_kernels() -> tuple[HonestKernel, ...]:
    """Return the first schedules of each part of each catalog task, in every floating dtype."""
    return tuple(
        kernel
        for entry in catalog.entries()
        for dtype in (_DTYPES if any("T[" in text for text in entry.inputs) else _DTYPES[:1])
        for kernel in _of_entry(entry, dtype)
    )


def _of_example(path: Path, dtype: Dtype) -> Iterator[HonestKernel]:
    for subject in load_subjects(str(path), ()):
        arrays = [_cast(a, dtype) for a in subject.inputs if isinstance(a, mx.array)]
        function = partial(subject.function, **subject.keywords)
        for name, part in _parts(f"{path.stem} {dtype.short}", function, arrays):
            yield from _of_part(name, part)


def _of_entry(entry: Entry, dtype: Dtype) -> Iterator[HonestKernel]:
    arrays = [mx.zeros(t.shape, _mlx(t.dtype)) for t in entry.types(dtype)]
    for name, part in _parts(f"{entry.name} {dtype.short}", entry.function, arrays):
        medium = _medium(part)
        if medium is not None:
            yield from _of_part(name, medium)


def _medium(part: Graph) -> Graph | None:
    if part.element_count <= _MOST_ELEMENTS:
        return part
    return smaller(part, rows=_ROWS, columns=_COLUMNS, most=_MOST_ELEMENTS)


def _cast(array: mx.array, dtype: Dtype) -> mx.array:
    return array.astype(_mlx(dtype)) if mx.issubdtype(array.dtype, mx.floating) else array


def _mlx(dtype: Dtype) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found


def _parts(
    name: str, function: Function, arrays: Sequence[mx.array]
) -> Iterator[tuple[str, Graph]]:
    with mx.stream(mx.cpu):
        graph = gather_attention(canonicalize(capture(function, *arrays)))
    for number, region in enumerate(partition(graph)):
        yield f"{name} part {number}", region.extract()


def _of_part(name: str, part: Graph) -> Iterator[HonestKernel]:
    try:
        found = schedules(part, _DEVICE)
    except UnsupportedError:
        return
    task = Task(part, name)
    for schedule in found[:_SCHEDULES]:
        yield HonestKernel(f"{name} {render(schedule)}", task, partial(lower, part, schedule))
