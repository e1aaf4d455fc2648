"""Results that depend only on whether a kernel multiplies an infinity by zero."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from kernelwright.evaluator.inputs.distribution import Reals
from kernelwright.evaluator.oracle.expected_output import Mask
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops.attention import spoiled
from kernelwright.ir.ops.contraction import beside, regrouped
from kernelwright.ir.reference import Made, reference
from kernelwright.metal.device.base import Array

_UNREAD: dict[str, Callable[..., Array]] = {
    "attention": spoiled,
    "convolution": beside,
    "quantized_matmul": regrouped,
}


def out_of_sight(
    graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]
) -> list[Mask] | None:
    """Mark results that are not finite only because of values that are multiplied by zero.

    Those are values out of a query's sight, a filter's beside what it is laid on, and infinities
    in quantized products. MLX's kernels skip them where they can and multiply them by zero where
    they cannot: nobody can be blamed for either. None where there is no such thing.
    """
    if all(node.op not in _UNREAD for node in graph.nodes):
        return None
    if all(np.isfinite(array.astype(np.float64)).all() for array in inputs):
        return None

    def unread(made: Made) -> Reals:
        find = _UNREAD.get(made.op.name)
        return (
            made.values if find is None else np.where(find(made.call, *made.read), 0, made.values)
        )

    skipping = reference(graph, cast("list[Reals]", list(inputs)), rounded=unread, clamp="nearest")
    return [
        np.asarray(np.isfinite(one) != np.isfinite(other))
        for one, other in zip(expected, skipping, strict=True)
    ]
