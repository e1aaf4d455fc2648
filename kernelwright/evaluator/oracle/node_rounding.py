"""Where a kernel ends that rounds each op's result to the dtype that MLX gives it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelwright.evaluator.oracle.error_of_moves import moves
from kernelwright.evaluator.oracle.float_format import Reals, rounded_to
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.ir.analysis.reference import Made, reference
from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.op import Array
from kernelwright.ir.ops.undefined import Clamp
from kernelwright.metal.device.executable import Array as AnyArray

_HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)
_ADDING = (Kind.REDUCTION, Kind.CONTRACTION, Kind.SCAN)


def with_node_rounding(
    graph: Graph, inputs: Sequence[AnyArray], tracked: Sequence[Tracked], clamp: Clamp | None
) -> list[Tracked]:
    """Widen errors to what rounding each op's result does, where such results are added up.

    A sum's bound takes the roundings of its terms for independent. Differences from a few numbers
    are all different, and all rounded alike: only evaluating them shows what that adds up to.
    """
    if not _adds_rounded(graph):
        return list(tracked)
    unrounded = _outputs_before_moves(graph)

    def rounded(made: Made) -> Array:
        if made.dtype not in _HALVES or made.value in unrounded:
            return made.values
        return rounded_to(made.values, made.dtype).astype(np.float64)

    found = reference(graph, list(inputs), rounded=rounded, clamp=clamp)
    return [_widened(one, np.asarray(ends)) for one, ends in zip(tracked, found, strict=True)]


def _widened(tracked: Tracked, ends: Array) -> Tracked:
    if tracked.error is None or tracked.values.dtype.kind != "f":
        return tracked
    with np.errstate(all="ignore"):
        apart: Reals = np.abs(ends - tracked.values)
    apart = np.where(np.isfinite(apart), apart, 0.0)
    return replace(tracked, error=np.maximum(tracked.error, apart))


def _adds_rounded(graph: Graph) -> bool:
    """Say whether anything is added up that some op rounds to 16 bits."""
    rounded = set[ValueId]()
    for node in graph.nodes:
        op, call = op_named(node.op), Call.of(graph, node)
        reads_rounded = not rounded.isdisjoint(node.inputs)
        if op.kind in _ADDING and reads_rounded:
            return True
        if moves(op, call) and not reads_rounded:
            continue
        rounded.update(v for v in node.outputs if graph.types[v].dtype in _HALVES)
    return False


def _outputs_before_moves(graph: Graph) -> frozenset[ValueId]:
    """Return the outputs and what they are moved from: those are rounded when they are judged."""
    found = set(graph.outputs)
    for node in reversed(graph.nodes):
        is_moved = moves(op_named(node.op), Call.of(graph, node))
        if is_moved and not found.isdisjoint(node.outputs):
            found.update(node.inputs)
    return frozenset(found)
