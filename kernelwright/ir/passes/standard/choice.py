"""Choices between a value and another one, each in one form: rectifiers, sizes, clips."""

from collections.abc import Sequence

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.match.activation import (
    BELOW_IS_OPPOSITE,
    BELOW_IS_ZERO,
    FROM_ZERO_ON,
    X,
)
from kernelwright.ir.match.pattern import Bind, Made, match_node
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource, filled, is_float, number, same

_CLIPPED = Made(("maximum",), (Made(("minimum",), (X, Bind("high"))), Bind("low")))


def _denied(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Swap what a denial chooses from."""
    denied = builder.made_by(node.inputs[0], "logical_not") if node.op == "select" else None
    if denied is None:
        return None
    return builder.add("select", (denied.inputs[0], *node.inputs[:0:-1]), call.outputs)


def _rectified(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write the greater of x and zero by that op where NaN stays NaN, and its zero as one zero."""
    if node.op != "select" or not call.outputs[0].dtype.is_float:
        return None
    source = BuilderSource(builder)
    if (found := match_node(source, BELOW_IS_ZERO, node)) is not None:
        x = found.values["x"]
        return [same(builder, "maximum", x, filled(builder, 0.0, x))]
    if (found := match_node(source, FROM_ZERO_ON, node)) is not None:
        x = found.values["x"]
        zero = filled(builder, 0.0, x)
        (shown,) = builder.add("greater", (x, zero), [builder.types[node.inputs[0]]])
        return builder.add("select", (shown, x, zero), call.outputs)
    return None


def _size(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See the size of x in the greater of it and its opposite."""
    if node.op not in ("select", "maximum") or not call.outputs[0].dtype.is_float:
        return None
    found = match_node(BuilderSource(builder), BELOW_IS_OPPOSITE, node)
    return [same(builder, "abs", found.values["x"])] if found is not None else None


def _clip(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Hold a value above the lower of two numbers first."""
    if node.op != "maximum" or not is_float(builder, node):
        return None
    found = match_node(BuilderSource(builder), _CLIPPED, node)
    if found is None:
        return None
    x, low, high = (found.values[name] for name in ("x", "low", "high"))
    least, most = number(builder, low), number(builder, high)
    if least is None or most is None or not least <= most:
        return None
    return [same(builder, "minimum", same(builder, "maximum", x, low), high)]


RULES: tuple[Rule, ...] = (_denied, _rectified, _size, _clip)
