"""Writing attention out again: products, masks and a softmax between them."""

from collections.abc import Callable, Sequence

import numpy as np

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.attention_operand import shaped
from kernelwright.ir.passes.reading import cast, filled, same
from kernelwright.ir.passes.view import broadcast

_LOWEST = float(np.finfo(np.float32).min)


def has_attention(graph: Graph) -> bool:
    """Say whether an attention is one op of a graph."""
    return any(node.op == "attention" for node in graph.nodes)


def expand_attention(
    graph: Graph,
    *,
    unless: Callable[[Call], bool] | None = None,
    rounds_weights: bool = False,
) -> Graph:
    """Return the graph with each attention as the steps it means, scores in float32.

    Where a rounding before the exponential matters, one op would hide how far it reaches. Those
    of which `unless` is true stay whole. `rounds_weights` gives weights the type of the values,
    as simdgroup matrices and MLX's own steps multiply them; else they stay in float32.
    """

    def expanded(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
        is_kept = node.op != "attention" or (unless is not None and unless(call))
        return None if is_kept else _expanded(builder, node, call, rounds_weights)

    return rewrite(graph, (expanded,))


def _expanded(
    builder: GraphBuilder, node: Node, call: Call, rounds_weights: bool
) -> Sequence[ValueId]:
    query, key, value = node.inputs[:3]
    batch, heads, queries, head = call.inputs[0].shape
    _, key_heads, keys, width = call.inputs[2].shape
    grouped = (batch, key_heads, heads // key_heads)
    turned = builder.apply("transpose", key, axes=(0, 1, 3, 2))
    left = shaped(builder, query, (*grouped, queries, head))
    product = builder.apply("matmul", left, _repeated(builder, turned, grouped))
    scores = cast(builder, product, Dtype.FLOAT32)
    scores = _scaled(builder, scores, call)
    scores = shaped(builder, scores, (batch, heads, queries, keys))
    scores = _masked(builder, node, call, scores)
    weights = _weights(builder, node, call, scores)
    if rounds_weights:
        weights = cast(builder, weights, call.inputs[2].dtype)
    weights = shaped(builder, weights, (*grouped, queries, keys))
    made = builder.apply("matmul", weights, _repeated(builder, value, grouped))
    made = cast(builder, made, call.outputs[0].dtype)
    return (shaped(builder, made, (batch, heads, queries, width)),)


def _repeated(builder: GraphBuilder, value: ValueId, grouped: tuple[int, ...]) -> ValueId:
    shape = builder.types[value].shape
    apart = shaped(builder, value, (*shape[:2], 1, *shape[2:]))
    return broadcast(builder, apart, (*grouped, *shape[2:]))


def _scaled(builder: GraphBuilder, scores: ValueId, call: Call) -> ValueId:
    scores = same(builder, "multiply", scores, filled(builder, call.number("scale"), scores))
    if not (cap := call.number("soft_cap")):
        return scores
    part = same(builder, "divide", scores, filled(builder, cap, scores))
    bent = same(builder, "tanh", part)
    return same(builder, "multiply", bent, filled(builder, cap, bent))


def _masked(builder: GraphBuilder, node: Node, call: Call, scores: ValueId) -> ValueId:
    shape = builder.types[scores].shape
    for seen in _sight(builder, call, shape):
        scores = _chosen(builder, broadcast(builder, seen, shape), scores, -np.inf)
    for mask in node.inputs[3 : len(node.inputs) - call.flag("has_sinks")]:
        spread = broadcast(builder, mask, shape)
        if builder.types[mask].dtype is Dtype.BOOL:
            scores = _chosen(builder, spread, scores, _LOWEST)
        else:
            scores = same(builder, "add", scores, cast(builder, spread, Dtype.FLOAT32))
    return scores


def _chosen(builder: GraphBuilder, mask: ValueId, scores: ValueId, hidden: float) -> ValueId:
    other = filled(builder, hidden, scores)
    return builder.add("select", (mask, scores, other), [builder.types[scores]])[0]


def _sight(builder: GraphBuilder, call: Call, shape: tuple[int, ...]) -> list[ValueId]:
    """Return what says of each query and key whether one is in sight of the other."""
    queries, keys = shape[2:]
    window, is_causal = call.integer("window"), call.flag("is_causal")
    if not window and not is_causal:
        return []
    rows = shaped(builder, _range(builder, keys - queries, queries), (queries, 1))
    places = [broadcast(builder, v, (queries, keys)) for v in (_range(builder, 0, keys), rows)]
    after = same(builder, "subtract", *places)
    found = [("less_equal", after, 0.0)] if is_causal else []
    if window:
        found.append(("less", same(builder, "abs", after), float(window)))
    type_ = TensorType((queries, keys), Dtype.BOOL)
    return [
        builder.add(op, (value, filled(builder, limit, value)), [type_])[0]
        for op, value, limit in found
    ]


def _range(builder: GraphBuilder, start: int, count: int) -> ValueId:
    attributes = (("start", float(start)), ("stop", float(start + count)), ("step", 1.0))
    return builder.add("arange", (), [TensorType((count,), Dtype.INT32)], attributes)[0]


def _weights(builder: GraphBuilder, node: Node, call: Call, scores: ValueId) -> ValueId:
    """Return the softmax of scores, of whose columns that of the sinks is thrown away."""
    if not call.flag("has_sinks"):
        return builder.apply("softmax", scores, precise=True)
    batch, heads, queries, keys = builder.types[scores].shape
    sinks = cast(builder, node.inputs[-1], Dtype.FLOAT32)
    column = shaped(builder, sinks, (1, heads, 1, 1))
    column = broadcast(builder, column, (batch, heads, queries, 1))
    type_ = TensorType((batch, heads, queries, keys + 1), Dtype.FLOAT32)
    (joined,) = builder.add("concatenate", (column, scores), [type_], (("axis", 3),))
    weights = builder.apply("softmax", joined, precise=True)
    bounds = (("start", (0, 0, 0, 1)), ("stop", type_.shape), ("strides", (1, 1, 1, 1)))
    return builder.apply("slice", weights, **dict(bounds))
