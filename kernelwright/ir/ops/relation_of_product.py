"""How the sizes of products hang together: of matrices, windows, attention, packed weights."""

import math

from kernelwright.ir.graph import Node
from kernelwright.ir.graph.dimension import ONE, Size
from kernelwright.ir.ops.op import Call
from kernelwright.ir.ops.relation import Sizing, fixed, reason_of


def convolved(shapes: Sizing, node: Node, call: Call) -> None:
    """Batches are free, features where no groups are told apart, and places by steps of strides.

    The window is kept, and so is what a stride leaves over at the end.
    """
    (x, weight), result = (shapes.of[v] for v in node.inputs), shapes.of[node.outputs[0]]
    equations, why = shapes.equations, reason_of(node)
    equations.equate(x[0], result[0], why)
    equations.equate(weight[0], result[-1], why)
    equations.equate(x[-1], Size.number(call.integer("groups")) * weight[-1], why)
    if call.integer("groups") != 1:
        equations.pin(x[-1], "a convolution's groups divide it")
        equations.pin(result[-1], "a convolution's groups divide it")
    for axis in range(1, len(x) - 1):
        equations.pin(weight[axis], "a convolution's window is fixed")
        step = Size.number(call.integers("strides")[axis - 1])
        spread = Size.number(call.integers("input_dilation")[axis - 1])
        left = (
            call.inputs[0].shape[axis] * call.integers("input_dilation")[axis - 1]
            - call.outputs[0].shape[axis] * call.integers("strides")[axis - 1]
        )
        equations.equate(step * result[axis] + Size.number(left), spread * x[axis], why)


def multiplied(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows, columns and depth of a matrix product."""
    left, right = shapes.of[node.inputs[0]], shapes.of[node.inputs[1]]
    result = shapes.of[node.outputs[0]]
    shapes.equations.equate(left[-1], right[-2], reason_of(node))
    shapes.equations.equate(left[-2], result[-2], reason_of(node))
    shapes.equations.equate(right[-1], result[-1], reason_of(node))
    for operand in (left, right, *(shapes.of[v] for v in node.inputs[2:])):
        lead = operand[:-2] if operand in (left, right) else operand
        for a, b in zip(reversed(lead), reversed(result[: len(result) - 2]), strict=False):
            if a != ONE and operand in (left, right):
                shapes.equations.equate(a, b, reason_of(node))
    for bias in node.inputs[2:]:
        shapes.equate(shapes.of[bias], result, reason_of(node))


def attended(shapes: Sizing, node: Node, call: Call) -> None:
    """Batches, queries and keys are free; heads hang together in groups, and are kept.

    So is a depth from which the scale may have been computed.
    """
    query, key, value = (shapes.of[v] for v in node.inputs[:3])
    result = shapes.of[node.outputs[0]]
    why = reason_of(node)
    for size in (query[1], key[1], value[1], result[1]):
        shapes.equations.pin(size, why)
    pairs = [(key[0], query[0]), (value[0], query[0]), (result[0], query[0])]
    pairs += [(key[3], query[3]), (value[2], key[2]), (result[2], query[2]), (result[3], value[3])]
    for a, b in pairs:
        shapes.equations.equate(a, b, why)
    scale, depth = call.number("scale"), call.inputs[0].shape[3]
    if any(math.isclose(scale, s, rel_tol=1e-3) for s in (depth**-0.5, 1 / depth)):
        shapes.equations.pin(query[3], f"the scale {scale:.6g} may have been computed from it")
    whole = (query[0], query[1], query[2], key[2])
    for mask in node.inputs[3 : len(node.inputs) - call.flag("has_sinks")]:
        for a, b in zip(reversed(shapes.of[mask]), reversed(whole), strict=False):
            if a != ONE:
                shapes.equations.equate(a, b, why)
    for sinks in node.inputs[len(node.inputs) - call.flag("has_sinks") :]:
        shapes.pin(sinks, why)


def dequantized(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows are free; a row's length hangs together with its words and groups, and is kept."""
    result = shapes.of[node.outputs[0]]
    for value in node.inputs:
        shapes.equate(shapes.of[value][:-1], result[:-1], reason_of(node))
        shapes.equations.pin(shapes.of[value][-1], reason_of(node))
    shapes.equations.pin(result[-1], reason_of(node))


def multiplied_by_packed(shapes: Sizing, node: Node, call: Call) -> None:
    """Rows and columns are free; the depth hangs together with words and groups."""
    left, packed, *rest = (shapes.of[v] for v in node.inputs)
    result = shapes.of[node.outputs[0]]
    if not call.flag("transpose") or len(packed) != 2:
        fixed(shapes, node, call)
        return
    shapes.equate(left[:-1], result[:-1], reason_of(node))
    shapes.equations.equate(packed[0], result[-1], reason_of(node))
    for parameters in rest:
        shapes.equations.equate(parameters[0], packed[0], reason_of(node))
    for operand in (left, packed, *rest):
        shapes.equations.pin(operand[-1], reason_of(node))
