"""MLX's own answer where an index may point anywhere: MLX reads and writes wherever it points."""

from collections.abc import Sequence
from math import prod

import mlx.core as mx
import numpy as np

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops import Call
from kernelwright.ir.trace.array import to_mlx
from kernelwright.ir.trace.interpret import loaded_constants
from kernelwright.ir.trace.replay import replay

_WITHIN = frozenset(("gather", "scatter"))
_ALONG = frozenset(("gather_axis", "scatter_axis"))
_WINDOWS = frozenset(("dynamic_slice", "dynamic_slice_update"))
_BATCHES = frozenset(("gather_mm", "gather_qmm"))
_INDEXED = _WITHIN | _ALONG | _WINDOWS | _BATCHES


def interpret_bounded(graph: Graph, *arrays: object) -> list[mx.array]:
    """Replay a graph with MLX's own ops, every index moved to the nearest place there is.

    Where all indices are in range, this is what MLX answers; where one is not, MLX would read or
    spoil the memory of its process.
    """
    values: dict[ValueId, mx.array] = dict(zip(graph.inputs, map(to_mlx, arrays), strict=True))
    values.update(loaded_constants(graph))
    for node in graph.nodes:
        given = [values[v] for v in node.inputs]
        moved = _bounded(Call.of(graph, node), node.op, given)
        values.update(zip(node.outputs, replay(graph, node, moved), strict=True))
    return [values[v] for v in graph.outputs]


def strays(graph: Graph, inputs: Sequence[object]) -> bool:
    """Say whether MLX would index outside of an array on these inputs; it is never let to."""
    if all(node.op not in _INDEXED for node in graph.nodes):
        return False
    values: dict[ValueId, mx.array] = dict(zip(graph.inputs, map(to_mlx, inputs), strict=True))
    values.update(loaded_constants(graph))
    found: list[mx.array] = []
    for node in graph.nodes:
        given = [values[v] for v in node.inputs]
        moved = _bounded(Call.of(graph, node), node.op, given)
        pairs = zip(given, moved, strict=True)
        found += [mx.any(one != other) for one, other in pairs if one is not other]
        # MLX is lazy: of all this it computes what the indices need.
        values.update(zip(node.outputs, replay(graph, node, moved), strict=True))
    return any(bool(one.item()) for one in found)


def _bounded(call: Call, op: str, arrays: Sequence[mx.array]) -> list[mx.array]:
    """Return an op's arrays, indices moved to the nearest place within what they index."""
    if op not in _INDEXED:
        return list(arrays)
    if op in _BATCHES:
        *operands, left, right = arrays
        sizes = (prod(operands[0].shape[:-2]), prod(operands[1].shape[:-2]))
        return [*operands, _clipped(left, 0, sizes[0] - 1), _clipped(right, 0, sizes[1] - 1)]
    if op in _WINDOWS:
        *read, start = arrays
        window = read[1].shape if len(read) > 1 else call.integers("shape")
        highs = [read[0].shape[axis] - window[axis] for axis in call.integers("axes")]
        high = mx.array(highs, start.dtype).reshape(start.shape)
        return [*read, mx.minimum(mx.maximum(start, mx.zeros_like(start)), high)]
    x, *rest = arrays
    updates = [rest.pop()] if op.startswith("scatter") else []
    if op in _ALONG:
        axes: tuple[int, ...] = (call.integer("axis"),)
        sizes_of: tuple[int, ...] = (1,) * x.ndim
    else:
        axes = call.integers("axes")
        sizes_of = updates[0].shape[-x.ndim :] if updates else call.integers("slice_sizes")
    moved = [
        _clipped(i, -x.shape[axis], x.shape[axis] - sizes_of[axis])
        for i, axis in zip(rest, axes, strict=True)
    ]
    return [x, *moved, *updates]


def _clipped(index: mx.array, low: int, high: int) -> mx.array:
    limits = np.iinfo(np.dtype(str(index.dtype).removeprefix("mlx.core.")))
    least = mx.array(max(low, int(limits.min)), index.dtype)
    most = mx.array(max(min(high, int(limits.max)), 0), index.dtype)
    return mx.minimum(mx.maximum(index, least), most)
