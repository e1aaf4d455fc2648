"""Gathering the nodes into which a CPU trace decomposes attention, and people write it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.attention import Attention, MaskLayer, Scores, attention_of
from kernelwright.ir.ops import Call
from kernelwright.ir.passes import fold, packed_product, view
from kernelwright.ir.passes.attention_mask import sight_of
from kernelwright.ir.passes.attention_operand import (
    key_heads,
    query_heads,
    shaped,
    unscaled_below,
)
from kernelwright.ir.passes.complex_parts import split_complex
from kernelwright.ir.passes.duplicate import split_views
from kernelwright.ir.passes.reading import BuilderSource, cast


def gather_attention(graph: Graph) -> Graph:
    """Return the graph with attention as one op wherever it is written out.

    That is how MLX decomposes it on the CPU, and what people write: scales on queries, keys or
    scores, heads repeated or grouped, masks chosen or added. The result computes the same up to
    rounding, not bit for bit: it is for plans that keep attention whole, as
    `mx.fast.scaled_dot_product_attention` does on a GPU. Complex pairs, by which some turn queries
    and keys, become floats that a kernel can hold. So are products with weights that are unpacked
    for them, which `mx.quantized_matmul` reads packed.
    """
    gathered = rewrite(split_complex(graph), (_attention, *packed_product.RULES))
    if gathered == graph:
        return graph
    return split_views(rewrite(gathered, (*fold.RULES, *view.RULES), merge=True))


@dataclass(frozen=True, slots=True)
class _Operands:
    """Queries, keys and values by head, and by what the products are multiplied."""

    query: ValueId
    key: ValueId
    value: ValueId
    scale: float


def _attention(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    found = attention_of(BuilderSource(builder), node)
    operands = _operands(builder, found) if found is not None else None
    if found is None or operands is None:
        return None
    scores = found.scores
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
    sight = sight_of(builder, _layers(builder, scores), (*query[:3], key[2]))
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


def _layers(builder: GraphBuilder, scores: Scores) -> list[MaskLayer]:
    """Return the masks of scores: what is taken away as what is added, ones as truth values."""
    return [_as_mask(builder, layer) for layer in scores.masks]


def _as_mask(builder: GraphBuilder, layer: MaskLayer) -> MaskLayer:
    if layer.is_subtracted:
        return MaskLayer(builder.apply("negative", layer.mask))
    if layer.is_counted:
        return MaskLayer(_truth(builder, layer.mask))
    return layer


def _truth(builder: GraphBuilder, ones: ValueId) -> ValueId:
    """Return where zeros and ones are ones, before truth values became numbers."""
    node, shape = builder.producer(ones), builder.types[ones].shape
    if node is not None and node.op in ("broadcast", "reshape"):
        return builder.apply(node.op, _truth(builder, node.inputs[0]), shape=shape)
    if node is not None and node.op == "cast":
        return node.inputs[0]
    return cast(builder, ones, Dtype.BOOL)


def _operands(builder: GraphBuilder, found: Attention) -> _Operands | None:
    """Return what an attention reads, if the shapes are [B, H, L, D] and [B, H / g, S, D or E]."""
    scores, value = found.scores, found.value
    of_query, query = unscaled_below(builder, scores.query)
    of_key, key = unscaled_below(builder, scores.key)
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
    scale, usual = scores.scale.times(of_query).times(of_key), 1 / math.sqrt(shapes[0][-1])
    return _Operands(query, keys, values, usual if scale.is_near(usual) else scale.number)


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
