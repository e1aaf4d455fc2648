"""Results that depend only on whether a kernel multiplies an infinity by zero."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from kernelwright.evaluator.inputs.distribution import Reals
from kernelwright.evaluator.inputs.independence import is_softmax_weight
from kernelwright.evaluator.oracle.expected_output import Mask
from kernelwright.ir.analysis.reference import Made, reference
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.device.executable import Array

_LEAST_WEIGHT = 2.0**-126
"""Of a softmax in float32: smaller ones are zero for some kernels."""


def _weighted_by_zero(_: Call, weights: Reals, values: Reals) -> Array:
    """Mark sums that values which are not finite spoil by a weight of zero, and by no other."""
    is_hidden = np.abs(weights.astype(np.float64)) < _LEAST_WEIGHT
    hidden = _meets(is_hidden, ~np.isfinite(values))
    seen_nan = _meets(~is_hidden, np.isnan(values))
    seen_both = _meets(~is_hidden, np.isposinf(values)) & _meets(~is_hidden, np.isneginf(values))
    return np.asarray(hidden & ~seen_nan & ~seen_both)


def _meets(one: Mask, other: Mask) -> Mask:
    return np.asarray(np.matmul(one.astype(np.float32), other.astype(np.float32)) > 0)


def _is_product(node: Node) -> bool:
    """Say whether a node is a product of two operands that are read as they are."""
    op = op_named(node.op)
    return op.kind is Kind.CONTRACTION and len(node.inputs) == 2 and op.skipped is None


def out_of_sight(
    graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]
) -> list[Mask] | None:
    """Mark results that are not finite only because of values that are multiplied by zero.

    Those are values out of a query's sight, whose weight a softmax made zero, a filter's beside
    what it is laid on, and infinities in quantized products. MLX's kernels skip them where they can
    and multiply them by zero where they cannot: nobody can be blamed for either. None where there
    is no such thing.
    """
    ops = {node.op for node in graph.nodes}
    unread_by: dict[str, Callable[..., Array]] = {
        op: skipped for op in ops if (skipped := op_named(op).skipped) is not None
    }
    unread_by |= {
        node.op: _weighted_by_zero
        for node in graph.nodes
        if _is_product(node) and is_softmax_weight(graph, node.inputs[0])
    }
    if not unread_by:
        return None
    if all(np.isfinite(array.astype(np.float64)).all() for array in inputs):
        return None

    def unread(made: Made) -> Reals:
        find = unread_by.get(made.op.name)
        return (
            made.values if find is None else np.where(find(made.call, *made.read), 0, made.values)
        )

    skipping = reference(graph, cast("list[Reals]", list(inputs)), rounded=unread, clamp="nearest")
    return [
        np.asarray(np.isfinite(one) != np.isfinite(other))
        for one, other in zip(expected, skipping, strict=True)
    ]
