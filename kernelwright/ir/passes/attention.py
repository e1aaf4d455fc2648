"""Gathering the nodes into which a CPU trace decomposes attention, and people write it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.ops import Call
from kernelwright.ir.passes import fold, view
from kernelwright.ir.passes.attention_mask import HIDDEN, Veil, sight_of
from kernelwright.ir.passes.attention_operand import (
    key_heads,
    query_heads,
    shaped,
    unscaled,
    unscaled_below,
)
from kernelwright.ir.passes.complex_parts import split_complex
from kernelwright.ir.passes.duplicate import split_views
from kernelwright.ir.passes.standard.reading import is_near, number
from kernelwright.ir.passes.standard.softmax import softmax_operand

_MOST_LAYERS = 12
"""Masks, scales, casts and views between a softmax and its product; people write fewer."""


def gather_attention(graph: Graph) -> Graph:
    """Return the graph with attention as one op wherever it is written out.

    That is how MLX decomposes it on the CPU, and what people write: scales on queries, keys or
    scores, heads repeated or grouped, masks chosen or added. The result computes the same up to
    rounding, not bit for bit: it is for plans that keep attention whole, as
    `mx.fast.scaled_dot_product_attention` does on a GPU. Complex pairs, by which some turn queries
    and keys, become floats that a kernel can hold.
    """
    gathered = rewrite(split_complex(graph), (_attention,))
    if gathered == graph:
        return graph
    return split_views(rewrite(gathered, (*fold.RULES, *view.RULES), merge=True))


@dataclass(frozen=True)
class _Scores:
    """Masked, capped and scaled scores, taken apart."""

    product: Node
    scale: float = 1.0
    cap: float = 0.0
    veils: tuple[Veil, ...] = ()
    """The innermost first."""
    sinks: ValueId | None = None

    def veiled(self, mask: ValueId, *, hides: bool = False) -> "_Scores":
        """Return the scores under one more mask."""
        return replace(self, veils=(*self.veils, Veil(mask, hides)))

    def scaled(self, factor: float) -> "_Scores | None":
        """Return the scores times a factor, which must not reach what masks put there."""
        if self.veils or self.cap:
            return None
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True, slots=True)
class _Operands:
    """Queries, keys and values by head, and by what the products are multiplied."""

    query: ValueId
    key: ValueId
    value: ValueId
    scale: float


def _attention(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "matmul":
        return None
    scores = _weights(builder, node.inputs[0])
    operands = _operands(builder, scores, node.inputs[1]) if scores is not None else None
    if scores is None or operands is None:
        return None
    query, key, value = (
        builder.types[v].shape for v in (operands.query, operands.key, operands.value)
    )
    output = call.outputs[0]
    sinks = () if scores.sinks is None else (scores.sinks,)
    if any(builder.types[v].shape != query[1:2] for v in sinks):
        return None
    type_ = TensorType((*query[:-1], value[-1]), output.dtype)
    if type_.size != output.size or type_.shape[-1] != output.shape[-1]:
        return None
    sight = sight_of(builder, scores.veils, (*query[:3], key[2]))
    (made,) = builder.add(
        "attention",
        (operands.query, operands.key, operands.value, *sight.masks, *sinks),
        [type_],
        (
            ("scale", operands.scale),
            ("is_causal", sight.is_causal),
            ("window", sight.window),
            ("soft_cap", scores.cap),
            ("has_sinks", bool(sinks)),
        ),
    )
    return (shaped(builder, made, output.shape),)


def _operands(builder: GraphBuilder, scores: _Scores, value: ValueId) -> _Operands | None:
    """Return what an attention reads, if the shapes are [B, H, L, D] and [B, H / g, S, D or E]."""
    of_query, query = unscaled_below(builder, scores.product.inputs[0])
    of_key, key = unscaled_below(builder, scores.product.inputs[1])
    if not _are_heads(builder, query, key, value):
        return None
    keys = key_heads(builder, key, is_swapped=True)
    values = key_heads(builder, value, is_swapped=False)
    if keys is None or values is None or len(builder.types[query].shape) > 5:
        return None
    query = query_heads(builder, query, builder.types[keys].shape[1])
    shapes = [builder.types[v].shape for v in (query, keys, values)]
    if not _fits(*shapes):
        return None
    scale, usual = scores.scale * of_query * of_key, 1 / math.sqrt(shapes[0][-1])
    is_usual = is_near(scale, usual, builder.types[query].dtype)
    return _Operands(query, keys, values, usual if is_usual else scale)


def _are_heads(builder: GraphBuilder, query: ValueId, key: ValueId, value: ValueId) -> bool:
    """Say whether keys and values belong to queries, rather than being a layer's weights.

    A layer's products have one matrix for all rows; one head alone has to be turned around.
    """
    ranks = {len(builder.types[v].shape) for v in (query, key, value)}
    if ranks != {2}:
        return len(ranks) == 1
    turned, joined = builder.made_by(key, "transpose"), builder.made_by(query, "reshape")
    if turned is None or joined is not None:
        return False
    return all(builder.constant_at(v) is None for v in (value, turned.inputs[0]))


def _fits(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> bool:
    return (
        len(query) == len(key) == len(value) == 4
        and tuple(key[:3]) == tuple(value[:3])
        and query[0] == key[0]
        and query[1] % key[1] == 0
        and query[3] == key[3]
    )


def _weights(builder: GraphBuilder, value: ValueId) -> _Scores | None:
    """Take the weights of values apart: a softmax, without its first column where sinks were."""
    value = _same_rows(builder, value)
    part = builder.made_by(value, "slice")
    weights = _same_rows(builder, part.inputs[0]) if part is not None else value
    x = _softened(builder, weights)
    if x is None:
        return None
    if part is None:
        return _scores(builder, x)
    joined = builder.made_by(_same_rows(builder, x), "concatenate")
    start, last = dict(part.attributes)["start"], len(builder.types[value].shape) - 1
    whole, kept = builder.types[part.inputs[0]].shape, builder.types[value].shape
    is_sink = (
        joined is not None
        and len(joined.inputs) == 2
        and builder.types[joined.inputs[0]].shape[last] == 1
        and start == (*(0,) * last, 1)
        and kept == (*whole[:-1], whole[-1] - 1)
    )
    if joined is None or not is_sink:
        return None
    scores = _scores(builder, joined.inputs[1])
    sinks = _sinks(builder, joined.inputs[0])
    return None if scores is None or sinks is None else replace(scores, sinks=sinks)


def _softened(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return what a softmax is taken of, be it one op or written out."""
    node = builder.producer(value)
    if node is None:
        return None
    return node.inputs[0] if node.op == "softmax" else softmax_operand(builder, node)


def _same_rows(builder: GraphBuilder, value: ValueId) -> ValueId:
    """Look through casts between floats, and through views that leave each row as it is."""
    while (node := builder.producer(value)) is not None:
        if node.op not in ("cast", "reshape"):
            break
        before, after = builder.types[node.inputs[0]], builder.types[value]
        if node.op == "cast" and not before.dtype.is_float:
            break
        if node.op == "reshape" and before.shape[-1:] != after.shape[-1:]:
            break
        value = node.inputs[0]
    return value


def _sinks(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return one logit a head, before it was given the shape of a column of scores."""
    while (node := builder.producer(value)) is not None and node.op in ("broadcast", "reshape"):
        value = node.inputs[0]
    return value if len(builder.types[value].shape) == 1 else None


def _scores(builder: GraphBuilder, value: ValueId, left: int = _MOST_LAYERS) -> _Scores | None:
    """Find the product of queries and keys below masks, cap and scale."""
    value = _same_rows(builder, value)
    node = builder.producer(value)
    if node is None or not left:
        return None
    if node.op == "matmul":
        return _Scores(node)
    if node.op == "select":
        return _chosen(builder, node, left)
    if node.op == "add":
        for kept, mask in (node.inputs, node.inputs[::-1]):
            if (inner := _scores(builder, kept, left - 1)) is not None:
                return inner.veiled(mask)
        return None
    if node.op == "subtract":
        inner = _scores(builder, node.inputs[0], left - 1)
        taken = builder.apply("negative", node.inputs[1])
        return inner.veiled(taken) if inner is not None else None
    factor, below = unscaled(builder, value)
    if below == value:
        return None
    bent = builder.made_by(below, "tanh")
    if bent is not None:
        return _capped(builder, factor, bent.inputs[0], left)
    scores = _scores(builder, below, left - 1)
    return scores.scaled(factor) if scores is not None else None


def _chosen(builder: GraphBuilder, node: Node, left: int) -> _Scores | None:
    """Read scores where a mask chooses them, and something that hides elsewhere."""
    mask, shown, other = node.inputs
    for kept, filler, hides in ((shown, other, False), (other, shown, True)):
        filled = number(builder, filler)
        if filled is not None and filled <= HIDDEN:
            inner = _scores(builder, kept, left - 1)
            return inner.veiled(mask, hides=hides) if inner is not None else None
    return None


def _capped(builder: GraphBuilder, cap: float, value: ValueId, left: int) -> _Scores | None:
    """Read `cap * tanh(x / cap)`; another divisor is a scale of x."""
    factor, below = unscaled(builder, value)
    scores = _scores(builder, below, left - 1)
    if scores is None or cap <= 0:
        return None
    times = factor * cap
    is_one = is_near(times, 1.0, builder.types[value].dtype)
    scaled = scores.scaled(1.0 if is_one else times)
    return replace(scaled, cap=cap) if scaled is not None else None
