"""Running error analysis: how far sound arithmetic may end from the ideal answer, by element.

After J. H. Wilkinson (1963) and N. J. Higham (Accuracy and Stability, 3.3): beside each value of
the float64 evaluation goes a bound of what a kernel may be off there. A kernel may compute each op
in float32, or round its result to the dtype of the graph's node; sums run in float32, in any order.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.error_in_common import values_that_are_summed, with_common
from kernelwright.evaluator.oracle.error_of_any_order import chains_of, with_any_order
from kernelwright.evaluator.oracle.error_rules import error_of
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.ir.graph import Graph, TensorType, ValueId
from kernelwright.ir.ops import Call, exact_dtype, op_named
from kernelwright.ir.ops.undefined import Clamp, clamped


def analyse(
    graph: Graph, arrays: Sequence[NDArray[np.generic]], *, clamp: Clamp | None = None
) -> list[Tracked]:
    """Evaluate a graph ideally and bound, element by element, what a sound kernel may be off.

    Raises:
        IndexError: an index is out of range, without `clamp`.
    """
    known: dict[ValueId, Tracked] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        known[value] = _stored(array, graph.types[value])
    for value, constant in graph.constants:
        known[value] = _stored(constant.array, constant.type)
    last_use = {v: i for i, node in enumerate(graph.nodes) for v in node.inputs}
    kept, summed, chains = set(graph.outputs), values_that_are_summed(graph), chains_of(graph)
    with np.errstate(all="ignore"):
        for index, node in enumerate(graph.nodes):
            op, call = op_named(node.op), Call.of(graph, node)
            read = [known[v] for v in node.inputs]
            if clamp is not None:
                within = clamped(node.op, call, [r.values for r in read], clamp)
                read = [replace(r, values=v) for r, v in zip(read, within, strict=True)]
            assert op.meaning is not None
            made = op.meaning(call, *(r.values for r in read))
            outputs = made if isinstance(made, tuple) else (made,)
            types = call.outputs
            exact = [
                np.asarray(o).astype(exact_dtype(t.dtype), copy=False)
                for o, t in zip(outputs, types, strict=True)
            ]
            tracked = error_of(node, op, call, read, exact)
            if len(tracked) == 1:
                tracked = [with_any_order(node, op, call, read, tracked[0], chains)]
            if len(tracked) == 1 and node.outputs[0] in summed:
                tracked = [with_common(node, op, call, read, tracked[0])]
            known.update(zip(node.outputs, tracked, strict=True))
            for value in set(node.inputs):
                if last_use[value] == index and value not in kept:
                    del known[value]
    return [known[v] for v in graph.outputs]


def _stored(array: NDArray[np.generic], type_: TensorType) -> Tracked:
    return Tracked(array.astype(exact_dtype(type_.dtype)), None, type_.dtype, is_stored=True)
