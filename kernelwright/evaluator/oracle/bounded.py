"""MLX's own answer where an index may point anywhere: MLX reads and writes wherever it points."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops import Call, op_named
from kernelwright.ir.ops.index_range import IndexRange
from kernelwright.ir.trace.array import to_mlx
from kernelwright.ir.trace.interpret import loaded_constants
from kernelwright.ir.trace.replay import replay


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
    if all(op_named(node.op).index_ranges is None for node in graph.nodes):
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
    ranges = op_named(op).index_ranges
    moved = list(arrays)
    if ranges is not None:
        for place, known in ranges(call).items():
            moved[place] = _clipped(arrays[place], known)
    return moved


def _clipped(index: mx.array, known: IndexRange) -> mx.array:
    limits = np.iinfo(np.dtype(str(index.dtype).removeprefix("mlx.core.")))
    least = mx.array(max(known.lowest, int(limits.min)), index.dtype)
    highest = [max(min(high, int(limits.max)), 0) for high in known.highest]
    most = mx.array(highest, index.dtype).reshape(index.shape if len(highest) > 1 else ())
    return mx.minimum(mx.maximum(index, least), most)
