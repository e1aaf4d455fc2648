"""Which dimensions a lowered kernel leaves open: those whose size its text does not hold."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.resize import FreeDimension, free_dimensions, resize
from kernelwright.metal.kernel import Dimensions, Extent, Kernel

_OTHER_SIZES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Odd and coprime: no vector divides them, and products tell them apart."""
_COMMENT = re.compile(r"//.*")
_GROUPED = re.compile(r"threadgroup|simd")

Write = Callable[[Graph], tuple[Kernel, ...]]


@dataclass(frozen=True)
class OpenDimension:
    """A dimension that a program binds by name."""

    name: str
    free: FreeDimension


@dataclass(frozen=True)
class Generic:
    """The open dimensions of a program, with what tells how each extent depends on them."""

    graph: Graph
    dimensions: tuple[OpenDimension, ...] = ()
    others: tuple[tuple[Graph, tuple[Kernel, ...]], ...] = ()
    """For each dimension, the graph and its kernels with only that one changed."""

    def input_shape(self, position: int) -> tuple[Extent, ...]:
        """Return an input's shape, open dimensions by name."""
        names = {axis: d.name for d in self.dimensions for axis in d.free.axes}
        shape = self.graph.input_types[position].shape
        return tuple(names.get((position, axis), size) for axis, size in enumerate(shape))

    def output_shape(self, position: int) -> tuple[Extent, ...]:
        """Return an output's shape as arithmetic over the open dimensions."""
        shapes = [g.output_types[position].shape for g, _ in self.others]
        return self._extents(self.graph.output_types[position].shape, shapes)

    def grid(self, kernels: Sequence[Kernel], position: int) -> Dimensions:
        """Return a kernel's grid as arithmetic over the open dimensions."""
        grids = [_numbers(changed[position].grid) for _, changed in self.others]
        x, y, z = self._extents(_numbers(kernels[position].grid), grids)
        return x, y, z

    def _extents(
        self, shape: Sequence[int], changed: Sequence[Sequence[int]]
    ) -> tuple[Extent, ...]:
        return tuple(
            self._extent(size, [c[axis] for c in changed]) for axis, size in enumerate(shape)
        )

    def _extent(self, size: int, changed: Sequence[int]) -> Extent:
        """Write a size as a number times the dimensions with which it doubles."""
        names: list[str] = []
        factor = size
        for dimension, other in zip(self.dimensions, changed, strict=True):
            if other != size:
                names.append(dimension.name)
                factor //= dimension.free.size
        if not names:
            return size
        return " * ".join(names if factor == 1 else [*names, str(factor)])


def generalize(graph: Graph, write: Write, kernels: tuple[Kernel, ...]) -> Generic:
    """Find the dimensions that `kernels`, written for `graph`, leave open.

    A dimension is open when the kernels written for other sizes of it are the same text.
    """
    chosen: list[FreeDimension] = []
    others: list[tuple[Graph, tuple[Kernel, ...]]] = []
    for free in free_dimensions(graph):
        if set(free.multiples) != {1} or free.is_reduced or free.size == 1:
            continue
        if not _same_text(graph, write, kernels, [*chosen, free]):
            continue
        try:
            doubled = resize(graph, {free.axes[0]: 2 * free.size})
            changed = write(doubled)
        except KernelwrightError:
            # What has no kernels of this kind at twice the size holds its size.
            continue
        if len(changed) == len(kernels) and _grows_in_step(
            _extents(graph, kernels), _extents(doubled, changed), free.size
        ):
            chosen.append(free)
            others.append((doubled, changed))
    names = ["rows"] if len(chosen) == 1 else [f"size_{i}" for i in range(len(chosen))]
    taken = {name for k in kernels for name in (*k.inputs, *k.outputs)}
    dimensions = tuple(
        OpenDimension(f"{name}_of" if name in taken else name, free)
        for name, free in zip(names, chosen, strict=True)
    )
    return Generic(graph, dimensions, tuple(others))


def _extents(graph: Graph, kernels: Sequence[Kernel]) -> list[int]:
    """Return every size that a program would write as arithmetic."""
    outputs = [size for type_ in graph.output_types for size in type_.shape]
    return [*outputs, *(number for k in kernels for number in _numbers(k.grid))]


def _grows_in_step(before: Sequence[int], after: Sequence[int], size: int) -> bool:
    """Say whether each extent is a multiple of a dimension that was doubled, or apart from it."""
    pairs = zip(before, after, strict=True)
    return all(a == b or (b == 2 * a and a % size == 0) for a, b in pairs)


def _same_text(
    graph: Graph, write: Write, kernels: tuple[Kernel, ...], dimensions: Sequence[FreeDimension]
) -> bool:
    other = _resized(graph, dimensions)
    if other is None or not _only_named_axes_changed(graph, other, dimensions):
        return False
    try:
        changed = write(other)
    except KernelwrightError:
        return False
    if len(changed) != len(kernels):
        return False
    return all(_text(a) == _text(b) for a, b in zip(kernels, changed, strict=True))


def _resized(graph: Graph, dimensions: Sequence[FreeDimension]) -> Graph | None:
    # A dimension that happens to have one of the sizes must change too.
    sizes = [n for n in _OTHER_SIZES if all(n != free.size for free in dimensions)]
    if len(dimensions) > len(sizes):
        return None
    try:
        return resize(graph, {free.axes[0]: n for free, n in zip(dimensions, sizes, strict=False)})
    except KernelwrightError:
        return None


def _only_named_axes_changed(
    graph: Graph, other: Graph, dimensions: Sequence[FreeDimension]
) -> bool:
    """Say whether every changed input axis is one that a name can stand for."""
    named = {axis for free in dimensions for axis in free.axes}
    types = enumerate(zip(graph.input_types, other.input_types, strict=True))
    return all(
        a == b or (position, axis) in named
        for position, (one, two) in types
        for axis, (a, b) in enumerate(zip(one.shape, two.shape, strict=True))
    )


def _text(kernel: Kernel) -> tuple[object, ...]:
    source = _COMMENT.sub("", kernel.source)
    # Threads that know nothing of their threadgroup run in any.
    threadgroup = kernel.threadgroup if _GROUPED.search(source) else None
    return (source, kernel.header, kernel.inputs, kernel.outputs, threadgroup)


def _numbers(extents: Dimensions) -> tuple[int, ...]:
    return tuple(e for e in extents if isinstance(e, int))
