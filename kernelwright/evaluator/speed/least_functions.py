"""The transcendental functions that every right kernel computes."""

import math
from collections.abc import Iterator, Mapping

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, Op, op_named, relation
from kernelwright.ir.ops.axes import reduced_axes
from kernelwright.ir.ops.elementwise import TRANSCENDENTAL_FLOPS
from kernelwright.ir.passes.duplicate import merge_common_subexpressions


def least_functions(graph: Graph) -> int:
    """Return how many transcendental functions of different arguments the outputs are made of.

    What is repeated counts once, a power by a constant not at all, and neither does a quotient:
    those of a product are one.
    """
    graph = merge_common_subexpressions(graph)
    varied: dict[ValueId, frozenset[int]] = {
        v: _long_axes(graph.types[v].shape) for v in graph.inputs
    }
    total = 0
    for node in graph.nodes:
        op = op_named(node.op)
        if _is_function(op, node, varied):
            axes = frozenset[int]().union(*_aligned(node, varied))
            shape = graph.types[node.inputs[0]].shape
            total += math.prod(shape[axis] for axis in axes) if axes else 0
        made = _varied_axes(graph, node, varied)
        varied.update(dict.fromkeys(node.outputs, made))
    return total


def _is_function(op: Op, node: Node, varied: Mapping[ValueId, frozenset[int]]) -> bool:
    if op.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION) or op.behaviour.divides:
        return False
    is_power = op.behaviour.is_power and not varied.get(node.inputs[-1])
    return op.flops_per_element >= TRANSCENDENTAL_FLOPS and not is_power


def _aligned(node: Node, varied: Mapping[ValueId, frozenset[int]]) -> Iterator[frozenset[int]]:
    return (varied.get(v, frozenset()) for v in node.inputs)


def _varied_axes(
    graph: Graph, node: Node, varied: Mapping[ValueId, frozenset[int]]
) -> frozenset[int]:
    """Return axes along which a value's elements differ; fewer where an op hides which."""
    op, made = op_named(node.op), graph.types[node.outputs[0]].shape
    if not node.inputs or (op.kind is Kind.INDEXING and not _places_all(op)):
        return frozenset()
    axes = frozenset[int]().union(*_aligned(node, varied))
    read = graph.types[node.inputs[0]].shape
    if op.kind is Kind.ELEMENTWISE or (op.kind is Kind.REDUCTION and made == read):
        return axes
    if op.kind is Kind.REDUCTION:
        return axes - frozenset(reduced_axes(Call.of(graph, node)))
    if axes == _long_axes(read) and math.prod(made) <= math.prod(read):
        return _long_axes(made)
    if op.relation is relation.spread:
        return frozenset(axis + len(made) - len(read) for axis in axes)
    kept = [axis for axis, length in enumerate(made) if length > 1]
    long = sorted(_long_axes(read))
    if op.kind is Kind.VIEW and [made[a] for a in kept] == [read[a] for a in long]:
        # A transposition of axes as long as each other may exchange them: both count or none.
        lengths = [read[axis] for axis in long]
        is_plain = op.relation is relation.reshaped or len(set(lengths)) == len(lengths)
        return frozenset(k for k, a in zip(kept, long, strict=True) if a in axes and is_plain)
    return frozenset()


def _places_all(op: Op) -> bool:
    """Say whether an op writes all of its operands side by side."""
    return op.kind is Kind.INDEXING and op.flops_per_element == 0 and not op.behaviour.data_places


def _long_axes(shape: tuple[int, ...]) -> frozenset[int]:
    return frozenset(axis for axis, length in enumerate(shape) if length > 1)
