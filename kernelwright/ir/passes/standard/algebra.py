"""Powers, roots, means and the logistic function, each in one form."""

from collections.abc import Sequence

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.activation import OVER_SIGMOID
from kernelwright.ir.match.pattern import match_node
from kernelwright.ir.ops import Call, mean_divisor, op_named
from kernelwright.ir.passes.reading import (
    BuilderSource,
    bare,
    filled,
    in_order,
    is_float,
    is_nonnegative,
    number,
    repeated_as,
    same,
)


def _by_one(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op not in ("multiply", "divide") or not is_float(builder, node):
        return None
    return [node.inputs[0]] if number(builder, node.inputs[1]) == 1.0 else None


def _square(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "multiply" or node.inputs[0] != node.inputs[1] or not is_float(builder, node):
        return None
    return [same(builder, "square", node.inputs[0])]


def _power(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write powers that have a name by it."""
    if node.op != "power" or not is_float(builder, node):
        return None
    x, exponent = node.inputs[0], number(builder, node.inputs[1])
    if exponent == 2:
        return [same(builder, "square", x)]
    if exponent == -1:
        return [same(builder, "divide", filled(builder, 1.0, x), x)]
    if exponent in (0.5, -0.5) and is_nonnegative(builder, x):
        return [same(builder, "sqrt" if exponent > 0 else "rsqrt", x)]
    return None


def _cube(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write `x * x * x` as a power, as MLX's own layers do."""
    if node.op != "multiply" or not is_float(builder, node):
        return None
    for squared, x in (node.inputs, node.inputs[::-1]):
        made = builder.made_by(squared, "square")
        if made is not None and made.inputs[0] == x:
            return [same(builder, "power", x, filled(builder, 3.0, x))]
    return None


def _root_below(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Multiply by the reciprocal root where the root stands below."""
    if node.op != "divide" or not is_float(builder, node):
        return None
    above, below = node.inputs
    root = builder.made_by(bare(builder, below), "sqrt")
    if root is None:
        return None
    inverse = same(builder, "rsqrt", root.inputs[0])
    if builder.types[inverse].shape != builder.types[below].shape:
        inverse = repeated_as(builder, inverse, below)
    if number(builder, above) == 1.0:
        return [inverse]
    return [same(builder, "multiply", above, inverse)]


def _sigmoid_below(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write `a / (1 + exp(-x))` with the logistic function, which never overflows."""
    if node.op != "divide" or not is_float(builder, node):
        return None
    found = match_node(BuilderSource(builder), OVER_SIGMOID, node)
    if found is None:
        return None
    gate, above = same(builder, "sigmoid", found.values["x"]), found.values["above"]
    return [gate if number(builder, above) == 1.0 else same(builder, "multiply", above, gate)]


def _even_division(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Multiply by the reciprocal of a power of two: it is exact."""
    if node.op != "divide" or not is_float(builder, node):
        return None
    divisor = number(builder, node.inputs[1])
    if divisor is None or divisor not in (0.5, 2.0, 4.0, 8.0, 16.0):
        return None
    x = node.inputs[0]
    return [same(builder, "multiply", x, filled(builder, 1 / divisor, x))]


def _negated_difference(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    difference = builder.made_by(node.inputs[0], "subtract") if node.op == "negative" else None
    if difference is None or not is_float(builder, difference):
        return None
    return [same(builder, "subtract", *difference.inputs[::-1])]


def _one_mean(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Scale by 1/N, as MLX does, where that rounds no more coarsely than dividing by N."""
    if node.op != "mean" or call.text("form") == "multiply":
        return None
    count = mean_divisor(call)
    if call.outputs[0].dtype is not Dtype.FLOAT32 and count & (count - 1):
        return None
    attributes = {**call.attributes, "form": "multiply"}
    return builder.add("mean", node.inputs, call.outputs, attributes.items())


def _deepest_first(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Order the operands of what commutes: what took more work comes first."""
    if len(node.inputs) != 2 or not op_named(node.op).is_commutative:
        return None
    return builder.add(node.op, in_order(builder, *node.inputs), call.outputs)


RULES: tuple[Rule, ...] = (
    _by_one,
    _square,
    _power,
    _cube,
    _sigmoid_below,
    _root_below,
    _even_division,
    _negated_difference,
    _one_mean,
)
ORDER: tuple[Rule, ...] = (_deepest_first,)
"""For what no other rule has anything to say about."""
