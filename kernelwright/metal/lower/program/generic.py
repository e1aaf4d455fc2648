"""Which dimensions a lowered kernel leaves open: those whose size its text does not hold."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.ir.passes.resize import FreeDimension, free_dimensions, resize
from kernelwright.metal.kernel import Dimensions, Kernel

_OTHER_SIZES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""What decisions see of open dimensions: odd and coprime, so that no vector divides them."""
_COMMENT = re.compile(r"//.*")
_GROUPED = re.compile(r"threadgroup|simd")

Write = Callable[[Graph], tuple[Kernel, ...]]


@dataclass(frozen=True)
class Generic:
    """A graph with the dimensions open that a program binds by name, and grids over them."""

    graph: Graph
    grids: tuple[Dimensions, ...]


def generalize(graph: Graph, write: Write, kernels: tuple[Kernel, ...]) -> Generic:
    """Open the dimensions that `kernels`, written for `graph`, leave open.

    A dimension is open when the kernels written for any size of it have the same text, and grids
    and outputs that follow from it by sums and products.
    """
    chosen: list[FreeDimension] = []
    for free in free_dimensions(graph):
        if free.is_reduced or free.size == 1:
            continue
        if _opened(graph, write, kernels, [*chosen, free], _numbered(len(chosen) + 1)) is not None:
            chosen.append(free)
    names = _numbered(len(chosen)) if len(chosen) != 1 else ["rows"]
    taken = {name for k in kernels for name in (*k.inputs, *k.outputs)}
    distinct = [f"{name}_of" if name in taken else name for name in names]
    found = _opened(graph, write, kernels, chosen, distinct) if chosen else None
    return found or Generic(graph, tuple(k.grid for k in kernels))


def _numbered(count: int) -> list[str]:
    return [f"size_{i}" for i in range(count)]


def _opened(
    graph: Graph,
    write: Write,
    kernels: tuple[Kernel, ...],
    dimensions: Sequence[FreeDimension],
    names: Sequence[str],
) -> Generic | None:
    """Open dimensions; None where that changes the text of kernels, or a size has no arithmetic."""
    # A dimension that happens to have one of the sizes must change too.
    sizes = [n for n in _OTHER_SIZES if all(n != free.size for free in dimensions)]
    if len(dimensions) > len(sizes):
        return None
    opened = zip(dimensions, names, sizes, strict=False)
    try:
        sizes_by_axis = [d.axis_sizes(OpenSize.named(name, n)) for d, name, n in opened]
        other = resize(graph, {axis: size for d in sizes_by_axis for axis, size in d.items()})
        if not all(_is_told(type_) for type_ in (*other.input_types, *other.output_types)):
            return None
        written = write(other)
    except KernelwrightError:
        return None
    if len(written) != len(kernels):
        return None
    if any(_text(a) != _text(b) for a, b in zip(kernels, written, strict=True)):
        return None
    return Generic(other, tuple(kernel.grid for kernel in written))


def _is_told(type_: TensorType) -> bool:
    """Say whether every size of an array has arithmetic over names."""
    return all(not isinstance(n, OpenSize) or n.terms is not None for n in type_.shape)


def _text(kernel: Kernel) -> tuple[object, ...]:
    source = _COMMENT.sub("", kernel.source)
    # Threads that know nothing of their threadgroup run in any.
    threadgroup = kernel.threadgroup if _GROUPED.search(source) else None
    return (source, kernel.header, kernel.inputs, kernel.outputs, threadgroup)
