"""Reductions as terms: plain ones, softmax and log-sum-exp, and few elements written out."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, mean_divisor, op_named
from kernelwright.metal.family.reducer import PLACES, REDUCERS
from kernelwright.metal.family.top_k import is_written_out
from kernelwright.metal.kernel_ir.expression import Expr, Reducer, computed
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.rowwise.moment import sum_in_parts
from kernelwright.metal.lower.term.operator import NOUNS, intrinsic, stores_floats
from kernelwright.metal.lower.term.rising import applied, lifted
from kernelwright.metal.lower.term.shortcut import is_magnitude, is_shifted, mean_name
from kernelwright.metal.lower.term.view import Coordinates

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder

_NOUNS = {
    Reducer.SUM: "total",
    Reducer.PRODUCT: "product",
    Reducer.MAXIMUM: "maximum",
    Reducer.MINIMUM: "minimum",
    Reducer.ALL: "every",
    Reducer.ANY: "some",
    Reducer.ARGMAX: "position",
    Reducer.ARGMIN: "position",
}
FEW_STEPS, STEPS_OF_PAIRS = 16, 32
"""Elements that a thread may read at once and join, and those that caches hold."""
_READ_OFTEN = 8
"""Results for each element read from which on a result is made of what caches hold, as of pairs."""


def reduction(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return what a reduction gives at a place of its result."""
    source = node.inputs[0]
    result = computed(builder.graph.types[node.outputs[0]].dtype)
    if is_written_out(builder.graph, node, builder.ranked):
        return _written_out(builder, node, call, places)
    if node.op == "softmax":
        return _softmax(builder, source, places)
    if node.op == "logsumexp":
        return _logsumexp(builder, source, places)
    axes = call.integers("axes") if "axes" in call.attributes else (call.integer("axis"),)
    if builder.spells_out and is_short(builder.graph, node):
        return _spelled_out(builder, node, call, axes, places)
    if node.op == "mean":
        body, axis = builder.visited(Reducer.SUM, source, axes, places)
        total = sum_in_parts(builder, body, axis) or builder.reduce(
            builder.terms.reduced(Reducer.SUM, body, axis, dtype=result, name="total")
        )
        divisor = builder.terms.place(Index.of(mean_divisor(call)))
        return builder.apply(ScalarOp.DIVIDE, result, mean_name(body), total, divisor)
    reducer = (REDUCERS | PLACES)[node.op]
    body, axis = builder.visited(reducer, source, axes, places)
    if reducer is Reducer.SUM and (parts := sum_in_parts(builder, body, axis)) is not None:
        return parts
    if reducer is Reducer.MAXIMUM and is_magnitude(body):
        return _largest_magnitude(builder, body, axis)
    is_extreme = reducer in (Reducer.MAXIMUM, Reducer.MINIMUM)
    steps, body = lifted(builder, body) if is_extreme else ([], body)
    reduced = builder.reduce(
        builder.terms.reduced(reducer, body, axis, dtype=result, name=_NOUNS[reducer])
    )
    return applied(builder, steps, reduced)


def _largest_magnitude(builder: "Builder", body: Expr, axis: Axis) -> Expr:
    """Return the largest of what has no sign: in the order of its bits, in which NaN comes last."""
    bits = builder.apply(ScalarOp.BITCAST, Dtype.UINT32, "bits", body)
    largest = builder.reduce(
        builder.terms.reduced(Reducer.MAXIMUM, bits, axis, dtype=Dtype.UINT32, name="largest")
    )
    return builder.apply(ScalarOp.BITCAST, Dtype.FLOAT32, "maximum", largest)


def _written_out(builder: "Builder", node: Node, call: Call, places: Coordinates) -> Expr:
    """Return a reduction of few elements as the expression that it is."""
    source, dtype = node.inputs[0], computed(builder.graph.types[node.outputs[0]].dtype)
    count = builder.graph.types[source].shape[-1]
    parts = [builder.element(source, (*places[:-1], Index.of(i))) for i in range(count)]
    if node.op in ("softmax", "logsumexp"):
        peak = folded(builder, "maximum", parts)
        total = folded(builder, "add", [_shifted(builder, part, peak) for part in parts])
        if node.op == "softmax":
            own = _shifted(builder, builder.element(source, places), peak)
            return builder.apply(ScalarOp.DIVIDE, dtype, "probability", own, total)
        log = builder.apply(ScalarOp.LOG, dtype, "logarithm", total)
        return builder.apply(ScalarOp.ADD, dtype, "logsumexp", log, peak)
    return _combined(builder, node, call, parts)


def is_short(graph: Graph, node: Node) -> bool:
    """Say whether a reduction joins so few elements that one thread may read them all at once."""
    results = max(graph.types[node.outputs[0]].size, 1)
    most = STEPS_OF_PAIRS if are_read_often(graph, results) else FEW_STEPS
    steps = graph.types[node.inputs[0]].size // results
    return bool(op_named(node.op).joined_by) and steps <= most


def are_read_often(graph: Graph, uses: int) -> bool:
    """Say whether so many uses read each element of a graph's inputs many times, as pairs do."""
    return sum(t.size for t in graph.input_types) * _READ_OFTEN <= uses


def _spelled_out(
    builder: "Builder", node: Node, call: Call, axes: tuple[int, ...], places: Coordinates
) -> Expr:
    """Return a reduction over any axes as the expression that it is."""
    shape = builder.graph.types[node.inputs[0]].shape
    steps = itertools.product(*(range(shape[axis]) for axis in axes))
    inner = [dict(zip(axes, map(Index.of, step), strict=True)) for step in steps]
    parts = [
        builder.element(node.inputs[0], tuple(at.get(i, place) for i, place in enumerate(places)))
        for at in inner
    ]
    return _combined(builder, node, call, parts)


def _combined(builder: "Builder", node: Node, call: Call, parts: Sequence[Expr]) -> Expr:
    combined = folded(builder, op_named(node.op).joined_by, parts)
    if node.op == "mean":
        divisor = builder.number(mean_divisor(call), combined.dtype)
        return builder.apply(ScalarOp.DIVIDE, combined.dtype, "mean", combined, divisor)
    return combined


def folded(builder: "Builder", op: str, parts: Sequence[Expr]) -> Expr:
    """Return parts joined by a binary op, from left to right."""
    joined, *rest = parts
    for part in rest:
        known = intrinsic(op, [joined.dtype, part.dtype], joined.dtype)
        name = "total" if op == "add" else NOUNS[op]
        joined = builder.apply(known.op, joined.dtype, name, joined, part, is_fast=known.is_fast)
    return joined


def _exponential(
    builder: "Builder", source: ValueId, places: Coordinates, *, drops_nan: bool
) -> tuple[Expr, Expr, Expr | None]:
    """Return (shifted exponential at `places`, its sum over the last axis, the maximum).

    There is no maximum where the values were shifted by it before: it would be 0.
    """
    last = len(places) - 1
    body, axis = builder.along(source, (last,), (*places[:-1], Index()))
    if is_shifted(body, axis):
        total = _exponential_total(builder, _exponential_of(builder, body), axis)
        return _exponential_of(builder, builder.element(source, places)), total, None
    peak = builder.terms.reduced(
        Reducer.MAXIMUM,
        body,
        axis,
        dtype=Dtype.FLOAT32,
        name="maximum",
        drops_nan=drops_nan,
    )
    total = _exponential_total(builder, _shifted(builder, body, peak), axis)
    return _shifted(builder, builder.element(source, places), peak), total, peak


def _exponential_total(builder: "Builder", body: Expr, axis: Axis) -> Expr:
    return builder.terms.reduced(Reducer.SUM, body, axis, dtype=Dtype.FLOAT32, name="total")


def _exponential_of(builder: "Builder", value: Expr) -> Expr:
    is_fast = not stores_floats(builder.graph)
    return builder.apply(ScalarOp.EXP, Dtype.FLOAT32, "exponential", value, is_fast=is_fast)


def _shifted(builder: "Builder", value: Expr, peak: Expr) -> Expr:
    difference = builder.apply(ScalarOp.SUBTRACT, Dtype.FLOAT32, "difference", value, peak)
    return _exponential_of(builder, difference)


def _softmax(builder: "Builder", source: ValueId, places: Coordinates) -> Expr:
    # A NaN reaches the sum, and with it the whole row; a maximum that others ask for keeps it.
    others = ("logsumexp", "max")
    is_alone = not any(node.op in others for node in builder.graph.nodes)
    exponential, total, _ = _exponential(builder, source, places, drops_nan=is_alone)
    one = builder.number(1.0, Dtype.FLOAT32)
    scale = builder.apply(ScalarOp.DIVIDE, Dtype.FLOAT32, "normalizer", one, total)
    return builder.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, "probability", exponential, scale)


def _logsumexp(builder: "Builder", source: ValueId, places: Coordinates) -> Expr:
    _, total, peak = _exponential(builder, source, places, drops_nan=False)
    if peak is None:
        return builder.apply(ScalarOp.LOG, Dtype.FLOAT32, "logsumexp", total)
    # An infinite maximum is the answer; subtracting it would give NaN.
    return builder.apply(
        ScalarOp.LOG_OF_SHIFTED_SUM,
        Dtype.FLOAT32,
        "logsumexp",
        peak,
        total,
    )
