"""Gathering the nodes into which a CPU trace decomposes attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.ir.builder import GraphBuilder, rewrite
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call

_HIDDEN = -1e4
"""What a mask puts in the place of a score is at most this: exp() of it is 0 in every dtype."""


def gather_attention(graph: Graph) -> Graph:
    """Return the graph with attention as one op wherever it is written as MLX decomposes it.

    The result computes the same up to rounding, not bit for bit: it is for plans that leave
    attention to `mx.fast.scaled_dot_product_attention`, which a trace on the CPU takes apart.
    """
    return rewrite(graph, (_attention,))


@dataclass(frozen=True)
class _Scores:
    """Masked and scaled scores, taken apart."""

    query: ValueId
    key: ValueId
    scale: float
    mask: ValueId | None


def _attention(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "matmul":
        return None
    weights = builder.made_by(node.inputs[0], "softmax")
    if weights is None:
        return None
    scores = _scores(builder, weights.inputs[0])
    if scores is None:
        return None
    value = _heads(builder, node.inputs[1])
    query, key = builder.types[scores.query].shape, builder.types[scores.key].shape
    values = builder.types[value].shape
    if not _fits(query, key, values):
        return None
    causal = scores.mask is not None and _is_causal(builder, scores.mask, query[2], key[2])
    mask = [] if scores.mask is None or causal else [scores.mask]
    if not all(_broadcasts(builder.types[m].shape, (*query[:3], key[2])) for m in mask):
        return None
    type_ = TensorType((*query[:-1], values[-1]), call.outputs[0].dtype)
    (made,) = builder.add(
        "attention",
        (scores.query, scores.key, value, *mask),
        [type_],
        (("scale", scores.scale), ("is_causal", causal)),
    )
    if type_.shape == call.outputs[0].shape:
        return (made,)
    return (builder.apply("reshape", made, shape=call.outputs[0].shape),)


def _fits(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> bool:
    """Say whether the shapes are [B, H, L, D], [B, H / g, S, D] and [B, H / g, S, E]."""
    return (
        len(query) == len(key) == len(value) == 4
        and tuple(key[:3]) == tuple(value[:3])
        and query[0] == key[0]
        and query[1] % key[1] == 0
        and query[3] == key[3]
    )


def _scores(builder: GraphBuilder, value: ValueId) -> _Scores | None:
    mask: ValueId | None = None
    masked = builder.made_by(value, "select")
    if masked is not None:
        hidden = _splat(builder, masked.inputs[2])
        if hidden is None or not hidden <= _HIDDEN:
            return None
        mask, value = _bare(builder, masked.inputs[0]), masked.inputs[1]
    elif (added := builder.made_by(value, "add")) is not None:
        mask, value = _bare(builder, added.inputs[1]), added.inputs[0]
    product = builder.made_by(value, "matmul")
    if product is None:
        return None
    query = _scaled_query(builder, product.inputs[0])
    key = _transposed_key(builder, product.inputs[1])
    if query is None or key is None:
        return None
    return _Scores(query[0], key, query[1], mask)


def _scaled_query(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, float] | None:
    """Return the query before its scale, as [B, H, L, D]; a reshape may stand between them."""
    shape = builder.types[value].shape
    moved = builder.made_by(value, "reshape")
    product = builder.made_by(moved.inputs[0] if moved else value, "multiply")
    if product is None:
        return None
    scale = _splat(builder, product.inputs[1])
    if scale is None:
        return None
    if len(shape) == 5:
        shape = (shape[0], shape[1] * shape[2], *shape[3:])
    query = product.inputs[0]
    if builder.types[query].shape != shape:
        query = builder.apply("reshape", query, shape=shape)
    return query, scale


def _transposed_key(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    spread = builder.made_by(value, "broadcast")
    node = builder.made_by(spread.inputs[0] if spread else value, "transpose")
    if node is None:
        return None
    rank = len(builder.types[node.inputs[0]].shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    axes = dict(node.attributes)["axes"]
    if axes == swapped:
        return _heads(builder, node.inputs[0])
    # A transpose of the projections and the swap of the last two axes arrive as one.
    if rank == 4 and isinstance(axes, tuple):
        unswapped = (*axes[:2], axes[3], axes[2])
        return builder.apply("transpose", node.inputs[0], axes=unswapped)
    return None


def _heads(builder: GraphBuilder, value: ValueId) -> ValueId:
    """Look through the axis that grouped heads are repeated along."""
    spread = builder.made_by(value, "broadcast")
    value = spread.inputs[0] if spread else value
    shape = builder.types[value].shape
    grouped = builder.made_by(value, "reshape")
    if grouped is not None and len(shape) == 5 and shape[2] == 1:
        flat = (*shape[:2], *shape[3:])
        before = builder.types[grouped.inputs[0]].shape
        if before == flat:
            return grouped.inputs[0]
        return builder.apply("reshape", grouped.inputs[0], shape=flat)
    return value


def _bare(builder: GraphBuilder, value: ValueId) -> ValueId:
    """Return a mask before it was spread over batches and heads."""
    spread = builder.made_by(value, "broadcast")
    value = spread.inputs[0] if spread else value
    shape = builder.types[value].shape
    grouped = builder.made_by(value, "reshape")
    return grouped.inputs[0] if grouped is not None and len(shape) == 5 else value


def _splat(builder: GraphBuilder, value: ValueId) -> float | None:
    """Return the number that a value holds everywhere, if it does."""
    spread = builder.made_by(value, "broadcast")
    constant = builder.constant_at(spread.inputs[0] if spread else value)
    if constant is None or constant.type.size != 1:
        return None
    return float(np.asarray(constant.array, np.float64).reshape(()))


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    padded = (*(1,) * (len(to) - len(shape)), *shape)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(padded, to, strict=True))


def _is_causal(builder: GraphBuilder, mask: ValueId, rows: int, columns: int) -> bool:
    """Say whether a mask is `row + (columns - rows) >= column`, made of two ranges."""
    node = builder.made_by(mask, "greater_equal")
    if node is None or builder.types[mask].shape[-2:] != (rows, columns):
        return False
    row, column = (_range_start(builder, v) for v in node.inputs)
    return (row == (columns - rows, "rows") and column == (0.0, "columns") and rows > 1) or (
        row == (columns - rows, "columns") and column == (0.0, "columns") and rows == 1
    )


def _range_start(builder: GraphBuilder, value: ValueId) -> tuple[float, str] | None:
    """Return where a spread range begins, and whether it counts rows or columns."""
    along = "columns"
    while True:
        node = builder.producer(value)
        if node is None:
            return None
        if node.op == "arange":
            attributes = dict(node.attributes)
            start, step = attributes["start"], attributes["step"]
            is_plain = step == 1.0 and isinstance(start, int | float)
            return (float(start), along) if is_plain else None  # type: ignore[arg-type]
        if node.op not in ("broadcast", "reshape"):
            return None
        shape = builder.types[value].shape
        if node.op == "reshape" and shape[-1] == 1 and builder.types[node.inputs[0]].size > 1:
            along = "rows"
        value = node.inputs[0]
