"""Softmax, log-sum-exp and log-softmax, seen where they are written out with the row's maximum.

A log-softmax is shifted, as MLX's own is: rows far from zero then cancel nothing, and a row with an
infinity is NaN as a whole. A log-sum-exp beside anything else that it is subtracted from keeps the
form in which it is written, because the other gives another number there.
"""

from collections.abc import Sequence

from kernelwright.ir.builder import GraphBuilder, Rule
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.standard.reading import is_float, number, row_value, same
from kernelwright.ir.passes.view import broadcast


def _shifted(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return x where a value is x less the maximum of its row."""
    node = builder.made_by(value, "subtract")
    if node is None:
        return None
    x, peak = node.inputs
    shape = builder.types[x].shape
    row = row_value(builder, peak, shape)
    found = builder.made_by(row, "max") if row is not None else None
    if found is None or found.inputs[0] != x or not _is_along_rows(found, shape):
        return None
    return x


def _is_along_rows(node: Node, shape: tuple[int, ...]) -> bool:
    return dict(node.attributes)["axes"] == (len(shape) - 1,)


def _total_of(builder: GraphBuilder, total: ValueId, exponential: ValueId) -> bool:
    """Say whether a value is the sum of exponentials over their rows."""
    node = builder.made_by(total, "sum")
    if node is None or node.inputs[0] != exponential:
        return False
    return _is_along_rows(node, builder.types[exponential].shape)


def _softmax(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See a softmax in shifted exponentials over their sum, or times its reciprocal."""
    x = softmax_operand(builder, node)
    return [_make(builder, x)] if x is not None else None


def softmax_operand(builder: GraphBuilder, node: Node) -> ValueId | None:
    """Return x where a node is a softmax of x written out, shifted by the row's maximum."""
    if node.op not in ("divide", "multiply") or not is_float(builder, node):
        return None
    shape = builder.types[node.inputs[0]].shape
    for exponential, other in (node.inputs, node.inputs[::-1]):
        made = builder.made_by(exponential, "exp")
        x = _shifted(builder, made.inputs[0]) if made is not None else None
        row = row_value(builder, other, shape)
        if x is None or row is None:
            continue
        if node.op == "multiply":
            inverse = builder.made_by(row, "divide")
            if inverse is None or number(builder, inverse.inputs[0]) != 1.0:
                continue
            row = inverse.inputs[1]
        if _total_of(builder, row, exponential):
            return x
        if node.op == "divide":
            return None
    return None


def _make(builder: GraphBuilder, x: ValueId) -> ValueId:
    return builder.add("softmax", (x,), [builder.types[x]], (("precise", False),))[0]


def _exponential(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """See a softmax in the exponential of a logarithm of one."""
    difference = builder.made_by(node.inputs[0], "subtract") if node.op == "exp" else None
    if difference is None or not is_float(builder, difference):
        return None
    x, total = difference.inputs
    row = row_value(builder, total, call.outputs[0].shape)
    found = builder.made_by(row, "logsumexp") if row is not None else None
    return [_make(builder, x)] if found is not None and found.inputs[0] == x else None


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
    total = builder.made_by(node.inputs[0], "sum") if node.op == "log" else None
    exponential = builder.made_by(total.inputs[0], "exp") if total is not None else None
    if total is None or exponential is None:
        return None
    shifted = exponential.inputs[0]
    if _shifted(builder, shifted) is None:
        return None
    if not _is_along_rows(total, builder.types[shifted].shape):
        return None
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
    x, total = node.inputs
    row = row_value(builder, total, call.outputs[0].shape)
    found = builder.made_by(row, "logsumexp") if row is not None else None
    if found is None or found.inputs[0] != x or _shifted(builder, x) is not None:
        return None
    shifted = _shift(builder, x)
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
