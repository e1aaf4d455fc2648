"""Opposites, sizes and doubles, each in one form."""

from collections.abc import Sequence

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import bare, filled, is_float, number, repeated_as, same


def _opposite(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write what is multiplied or divided by minus one, or taken from zero, as its opposite."""
    if node.op not in ("multiply", "divide", "subtract") or not is_float(builder, node):
        return None
    x, by = node.inputs
    if node.op == "subtract":
        return [same(builder, "negative", by)] if number(builder, x) == 0.0 else None
    return [same(builder, "negative", x)] if number(builder, by) == -1.0 else None


def _sum_with_opposite(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Take away what the opposite of is added, and add what the opposite of is taken away."""
    if node.op not in ("add", "subtract") or not is_float(builder, node):
        return None
    first, second = node.inputs
    if (opposed := _opposed(builder, second)) is not None:
        return [same(builder, "subtract" if node.op == "add" else "add", first, opposed)]
    if node.op == "add" and (opposed := _opposed(builder, first)) is not None:
        return [same(builder, "subtract", second, opposed)]
    return None


def _opposed(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return what a value, or what is repeated to become it, is the opposite of."""
    made = builder.made_by(bare(builder, value), "negative")
    if made is None:
        return None
    (x,) = made.inputs
    if builder.types[x].shape == builder.types[value].shape:
        return x
    return repeated_as(builder, x, value)


def _even_of_sign(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Drop the sign of what is squared, or whose size is taken."""
    if node.op not in ("square", "abs") or not is_float(builder, node):
        return None
    made = builder.producer(node.inputs[0])
    if made is None or made.op not in ("negative", "abs"):
        return None
    return [same(builder, node.op, made.inputs[0])]


def _doubled(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "add" or node.inputs[0] != node.inputs[1] or not is_float(builder, node):
        return None
    x = node.inputs[0]
    return [same(builder, "multiply", x, filled(builder, 2.0, x))]


RULES: tuple[Rule, ...] = (_opposite, _sum_with_opposite, _even_of_sign, _doubled)
