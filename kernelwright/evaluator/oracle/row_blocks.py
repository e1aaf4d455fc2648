"""Cutting a graph into blocks of rows, where rows do not depend on each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.axes import slices
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


def has_attention(graph: Graph) -> bool:
    """Say whether rows may be mixed by an attention."""
    return any(node.op == "attention" for node in graph.nodes)


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
        if dimension.is_reduced or set(dimension.multiples) != {1}:
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
        read, made = [axes[v] for v in node.inputs], [axes[v] for v in node.outputs]
        if all(axis is None for axis in (*read, *made)):
            return True
        kind, call = op_named(node.op).kind, Call.of(self.graph, node)
        if kind is Kind.ELEMENTWISE:
            return True
        if len(set(made)) != 1 or not read:
            return False
        if node.op == "broadcast":
            return _keeps_broadcast(call, read[0], made[0])
        if read[0] is None or made[0] is None:
            return kind is Kind.INDEXING and _keeps_gather(node, read, made[0])
        if kind is Kind.VIEW:
            return _keeps_view(node, call, read[0], made[0])
        same = read[0] == made[0]
        if kind is Kind.REDUCTION:
            return same and read[0] not in _reduced(call)
        if kind in (Kind.SCAN, Kind.SORT) and len(read) == 1:
            rank = len(call.inputs[0].shape)
            return same and call.integer("axis") % rank != read[0]
        if node.op == "concatenate":
            return set(read) == {made[0]} and call.integer("axis") != made[0]
        if node.op == "pad":
            return same and read[0] not in call.integers("axes")
        if node.op == "gather_axis":
            return set(read) == {made[0]} and call.integer("axis") != made[0]
        if node.op == "matmul":
            return _keeps_matmul(call, read, made[0])
        return False


def _keeps_broadcast(call: Call, read: int | None, made: int | None) -> bool:
    if read is None or made is None:
        return read is None
    return made == read + len(call.outputs[0].shape) - len(call.inputs[0].shape)


def _keeps_view(node: Node, call: Call, read: int, made: int) -> bool:
    before, after = call.inputs[0].shape, call.outputs[0].shape
    if node.op == "transpose":
        return call.integers("axes")[made] == read
    if node.op == "slice":
        return read == made and slices(call)[read] == slice(0, before[read], 1)
    if node.op == "split":
        return read == made and call.integer("axis") != read
    if node.op == "as_strided":
        return False
    same_size = before[read] == after[made]
    return same_size and np.prod(before[:read]) == np.prod(after[:made])


def _reduced(call: Call) -> tuple[int, ...]:
    if "axes" in call.attributes:
        return call.integers("axes")
    if "axis" in call.attributes:
        return (call.integer("axis"),)
    return (len(call.inputs[0].shape) - 1,)


def _keeps_gather(node: Node, read: Sequence[int | None], made: int | None) -> bool:
    """Allow looking up rows of a table that all share, by indices that lie along the rows."""
    return node.op == "gather" and read[0] is None and set(read[1:]) == {made}


def _keeps_matmul(call: Call, read: Sequence[int | None], made: int) -> bool:
    ranks = [len(t.shape) for t in call.inputs]
    from_end = len(call.outputs[0].shape) - made
    if read[0] is None or ranks[0] - read[0] != from_end or from_end == 1:
        return False
    return read[1] is None or (from_end > 2 and ranks[1] - read[1] == from_end)
