"""Computing what is known at capture: ops of one-element constants, with MLX's own bits."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph import Constant, Graph, Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named

_HALVES = (Dtype.FLOAT16.numpy, Dtype.BFLOAT16.numpy)


def fold_constants(graph: Graph) -> Graph:
    """Replace exact ops of one-element constants by their value.

    Only ops that every IEEE implementation rounds alike are computed, each in its own dtype,
    so that replaying the graph still gives MLX's bits.
    """
    return rewrite(graph, RULES)


def _fold(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    op = op_named(node.op)
    if not op.is_exact or not node.inputs or math.prod(call.outputs[0].shape) != 1:
        return None
    constants = [builder.constant_at(v) for v in node.inputs]
    arrays = [c.array for c in constants if c is not None]
    if len(arrays) != len(node.inputs) or any(a.size != 1 for a in arrays):
        return None
    output = call.outputs[0]
    if op.kind is Kind.VIEW:
        return [builder.constant(Constant.of(arrays[0].reshape(output.shape), output.dtype))]
    assert op.meaning is not None
    with np.errstate(all="ignore"):
        # One operation in single precision, rounded to half precision afterwards, gives what one
        # in half precision does: 24 bits are more than twice 11 and 2 (Figueroa, "When is
        # double rounding innocuous?", 1995). Other operands keep their dtype.
        result = op.meaning(call, *map(_at_least_single, arrays))
        folded = Constant.of(np.asarray(result).reshape(output.shape), output.dtype)
    return [builder.constant(folded)]


def _at_least_single(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return array.astype(np.float32) if array.dtype in _HALVES else array


def _constant_last(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Put the constant of a commutative op second, whichever way it was written."""
    if not op_named(node.op).is_commutative or len(node.inputs) != 2:
        return None
    first, second = (_is_constant(builder, v) for v in node.inputs)
    if not first or second:
        return None
    return builder.add(node.op, node.inputs[::-1], call.outputs, node.attributes)


def _is_constant(builder: GraphBuilder, value: ValueId) -> bool:
    node = builder.made_by(value, "broadcast")
    return builder.constant_at(node.inputs[0] if node else value) is not None


RULES: tuple[Rule, ...] = (_fold, _constant_last)
