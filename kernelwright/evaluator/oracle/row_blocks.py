"""Cutting a graph into blocks of rows, where rows do not depend on each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Domain, Kind, batch_axes, op_named
from kernelwright.ir.passes.attention_steps import has_attention
from kernelwright.ir.passes.resize import free_dimensions, resize

T = TypeVar("T", bound=np.generic)
_BLOCK_ELEMENTS = 1 << 17
"""A megabyte in float64: what of a block is at hand stays in a core's caches."""
_FEWEST_BLOCKS = 4
_FIRST_BYTES = 512
"""Of a block of an input, which tell most blocks apart."""
_KEPT_GRAPHS = 64
_WIDEST = 8


@dataclass(frozen=True)
class RowBlocks:
    """A graph that does the same to each of its `rows`, and itself for a block of them."""

    rows: int
    block: int
    graph: Graph
    axes: tuple[int | None, ...]
    """By input: the axis along which rows lie; None for what all rows share."""
    output_axes: tuple[int, ...]

    @property
    def starts(self) -> range:
        """The first row of each block."""
        return range(0, self.rows, self.block)


def block_inputs(
    graph: Graph, blocks: RowBlocks, inputs: Sequence[NDArray[T]], start: int
) -> tuple[Graph, list[NDArray[T]]]:
    """Return the graph of the block that starts at a row, and what of the inputs it reads."""
    stop = min(start + blocks.block, blocks.rows)
    part = blocks.graph
    if stop - start != blocks.block:
        part = with_rows(graph, blocks, stop - start)
    cut = [
        array if axis is None else array[(*[slice(None)] * axis, slice(start, stop))]
        for array, axis in zip(inputs, blocks.axes, strict=True)
    ]
    return part, cut


def with_rows(graph: Graph, blocks: RowBlocks, rows: int) -> Graph:
    """Return the graph for another number of rows."""
    return resize(graph, _sizes(blocks.axes, rows))


def first_alike(blocks: RowBlocks, inputs: Sequence[NDArray[T]]) -> dict[int, int]:
    """Return for the start of each block that of the first with the same bits in every input."""
    known: dict[tuple[bytes, ...], list[int]] = {}
    found: dict[int, int] = {}
    for start in blocks.starts:
        cut = _cut(blocks, inputs, start)
        key = tuple(_first_bytes(array) for array in cut)
        others = known.setdefault(key, [])
        same = (o for o in others if _are_same(cut, _cut(blocks, inputs, o)))
        found[start] = next(same, start)
        if found[start] == start:
            others.append(start)
    return found


def _cut(blocks: RowBlocks, inputs: Sequence[NDArray[T]], start: int) -> list[NDArray[T]]:
    """Return what a block reads of the inputs that not all blocks share."""
    return [
        array[(*[slice(None)] * axis, slice(start, start + blocks.block))]
        for array, axis in zip(inputs, blocks.axes, strict=True)
        if axis is not None
    ]


def _first_bytes(array: NDArray[T]) -> bytes:
    rows = array.reshape(-1) if array.flags.c_contiguous else array[(0,) * (array.ndim - 1)]
    return str(array.shape).encode() + rows[: _FIRST_BYTES // array.itemsize].tobytes()


def _are_same(one: Sequence[NDArray[T]], other: Sequence[NDArray[T]]) -> bool:
    return all(
        a.shape == b.shape and np.array_equal(_bits(a), _bits(b))
        for a, b in zip(one, other, strict=True)
    )


def _bits(array: NDArray[T]) -> NDArray[np.generic]:
    size = array.dtype.itemsize
    return array.view(f"u{size}") if size <= _WIDEST else array.view("u8")


def _sizes(axes: Sequence[int | None], size: int) -> dict[tuple[int, int], int]:
    return {(place, axis): size for place, axis in enumerate(axes) if axis is not None}


def row_blocks(graph: Graph) -> RowBlocks | None:
    """Return how to cut a graph into blocks of rows; None where it is small or they mix."""
    return _row_blocks(graph, _BLOCK_ELEMENTS)


@lru_cache(maxsize=_KEPT_GRAPHS)
def _row_blocks(graph: Graph, block_elements: int) -> RowBlocks | None:
    elements = max((t.size for t in (*graph.input_types, *graph.output_types)), default=0)
    if elements < _FEWEST_BLOCKS * block_elements or has_attention(graph):
        return None
    try:
        dimensions = free_dimensions(graph)
    except KernelwrightError:
        return None
    for dimension in sorted(dimensions, key=lambda d: -d.size):
        if dimension.is_reduced or not dimension.is_alone:
            continue
        block = max(dimension.size * block_elements // elements, 1)
        found = _blocks_along(graph, dict(dimension.axes), dimension.size, block)
        if found is not None and dimension.size >= _FEWEST_BLOCKS * found.block:
            return found
    return None


def _blocks_along(graph: Graph, axis_of: dict[int, int], rows: int, block: int) -> RowBlocks | None:
    axes = tuple(axis_of.get(place) for place in range(len(graph.inputs)))
    try:
        part = resize(graph, _sizes(axes, block))
    except KernelwrightError:
        return None
    found = _Independence(graph, part).axes()
    if found is None or any(found[v] is None for v in graph.outputs):
        return None
    return RowBlocks(rows, block, part, axes, tuple(found[v] or 0 for v in graph.outputs))


@dataclass(frozen=True)
class _Independence:
    """Whether each row of every value depends on the same row of the inputs alone."""

    graph: Graph
    part: Graph

    def axes(self) -> dict[ValueId, int | None] | None:
        """Return the axis of each value along which rows lie; nothing where rows mix."""
        found: dict[ValueId, int | None] = {}
        for value, (whole, part) in enumerate(zip(self.graph.types, self.part.types, strict=True)):
            differing = [
                axis
                for axis, (a, b) in enumerate(zip(whole.shape, part.shape, strict=True))
                if a != b
            ]
            if len(differing) > 1:
                return None
            found[value] = differing[0] if differing else None
        if all(self._keeps(node, found) for node in self.graph.nodes):
            return found
        return None

    def _keeps(self, node: Node, axes: dict[ValueId, int | None]) -> bool:
        read, made = [axes[v] for v in node.inputs], {axes[v] for v in node.outputs}
        op, call = op_named(node.op), Call.of(self.graph, node)
        if op.kind is Kind.ELEMENTWISE or made == {None}:
            return op.kind is Kind.ELEMENTWISE or not any(axis is not None for axis in read)
        if len(made) != 1 or not read:
            return False
        if not any(axis is not None for axis in read):
            return op.kind is Kind.VIEW
        (after,) = made
        assert after is not None
        is_packed = Domain.PACKED in op.behaviour.domains
        if op.kind is Kind.CONTRACTION and (read[0] is None or is_packed):
            # Columns of the right operand are no rows, and each block would unpack it anew.
            return False
        return all(
            axis is None
            or (
                batch_axes(op, call, place, frozenset({axis})) == made
                and call.inputs[place].shape[axis] == call.outputs[0].shape[after]
            )
            for place, axis in enumerate(read)
        )
