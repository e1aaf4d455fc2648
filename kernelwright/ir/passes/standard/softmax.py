"""Softmax, log-sum-exp and log-softmax, seen where they are written out with the row's maximum.

A log-softmax is shifted, as MLX's own is: rows far from zero then cancel nothing, and a row with an
infinity is NaN as a whole. A log-sum-exp beside anything else that it is subtracted from keeps the
form in which it is written, because the other gives another number there.
"""

from collections.abc import Sequence

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.pattern import Found, match, match_node
from kernelwright.ir.match.row import (
    AXES,
    LOG_SOFTMAX,
    SHIFTED,
    SHIFTED_LOGSUMEXP,
    SHIFTED_SOFTMAX,
)
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource, is_float, row_value, same
from kernelwright.ir.passes.view import broadcast


def _shifted(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return x where a value is x less the maximum of its row."""
    return _operand(match(BuilderSource(builder), SHIFTED, value))


def _operand(found: Found | None) -> ValueId | None:
    """Return x of a match along the last axis."""
    if found is None:
        return None
    rows = found.rows.get(AXES)
    return found.values["x"] if rows is not None and rows.are_last else None


def _softmax(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See a softmax in shifted exponentials over their sum, or times its reciprocal."""
    if node.op not in ("divide", "multiply") or not is_float(builder, node):
        return None
    x = _operand(match_node(BuilderSource(builder), SHIFTED_SOFTMAX, node))
    return [_make(builder, x)] if x is not None else None


def _make(builder: GraphBuilder, x: ValueId) -> ValueId:
    return builder.add("softmax", (x,), [builder.types[x]], (("precise", False),))[0]


def _exponential(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See a softmax in the exponential of a logarithm of one."""
    if node.op != "exp" or not is_float(builder, node):
        return None
    found = match(BuilderSource(builder), LOG_SOFTMAX, node.inputs[0])
    return [_make(builder, found.values["x"])] if found is not None else None


def _bare_softmax(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Take a shift from a softmax that shifts by itself, and a precision that says nothing."""
    if node.op != "softmax":
        return None
    x, precise = node.inputs[0], call.flag("precise")
    unshifted = _shifted(builder, x)
    is_void = precise and call.inputs[0].dtype is Dtype.FLOAT32
    if unshifted is None and not is_void:
        return None
    attributes = (("precise", precise and not is_void),)
    return builder.add(
        "softmax", (x if unshifted is None else unshifted,), call.outputs, attributes
    )


def _logsumexp(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See a log-sum-exp in the logarithm of the sum of shifted exponentials."""
    found = match_node(BuilderSource(builder), SHIFTED_LOGSUMEXP, node)
    if found is None or (x := _operand(found)) is None:
        return None
    # Where powers of two were scaled before they were shifted, no value is x less its peak.
    shifted = found.values.get("shifted")
    if shifted is None:
        type_ = builder.types[x]
        peak = builder.apply("max", x, axes=(len(type_.shape) - 1,))
        (shifted,) = builder.add("subtract", (x, broadcast(builder, peak, type_.shape)), [type_])
    return builder.add("logsumexp", (shifted,), call.outputs)


def _shift(builder: GraphBuilder, x: ValueId) -> ValueId:
    """Return x less the maximum of its row."""
    if _shifted(builder, x) is not None:
        return x
    shape = builder.types[x].shape
    peak = builder.apply("max", x, axes=(len(shape) - 1,))
    return same(builder, "subtract", x, broadcast(builder, peak, shape))


def _log_softmax(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Shift before a log-sum-exp is subtracted: rows far from zero then cancel nothing."""
    if node.op != "subtract" or not is_float(builder, node):
        return None
    found = match_node(BuilderSource(builder), LOG_SOFTMAX, node)
    if found is None or _shifted(builder, found.values["x"]) is not None:
        return None
    shifted = _shift(builder, found.values["x"])
    inner = _sum_of(builder, shifted)
    return [same(builder, "subtract", shifted, broadcast(builder, inner, call.outputs[0].shape))]


def _sum_of(builder: GraphBuilder, shifted: ValueId) -> ValueId:
    type_ = builder.types[shifted]
    row = TensorType((*type_.shape[:-1], 1), type_.dtype)
    return builder.add("logsumexp", (shifted,), [row])[0]


def _picked_difference(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Pick one element of a row before the row's own value is subtracted."""
    if node.op != "gather_axis" or call.outputs[0].shape[-1:] != (1,):
        return None
    difference = builder.made_by(node.inputs[0], "subtract")
    shape = call.inputs[0].shape
    if difference is None or call.integer("axis") % len(shape) != len(shape) - 1:
        return None
    row = row_value(builder, difference.inputs[1], shape)
    if row is None or builder.types[row].shape != call.outputs[0].shape:
        return None
    x, places = difference.inputs[0], node.inputs[1]
    picked = builder.add("gather_axis", (x, places), call.outputs, node.attributes)[0]
    return [same(builder, "subtract", picked, row)]


RULES: tuple[Rule, ...] = (
    _softmax,
    _exponential,
    _bare_softmax,
    _logsumexp,
    _log_softmax,
    _picked_difference,
)
