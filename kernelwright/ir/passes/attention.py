"""Gathering the nodes into which a CPU trace decomposes attention."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelwright.ir.builder import GraphBuilder, rewrite
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call

_HIDDEN = -1e4
"""What a mask puts in the place of a score is at most this: exp() of it is 0 in every dtype."""


def gather_attention(graph: Graph) -> Graph:
    """Return the graph with attention as one op wherever it is written as MLX decomposes it.

    The result computes the same up to rounding, not bit for bit: it is for plans that keep
    attention whole, as `mx.fast.scaled_dot_product_attention` does on a GPU; a trace on the CPU
    takes it apart.
    """
    return rewrite(graph, (_attention,))


@dataclass(frozen=True)
class _Scores:
    """Masked, capped and scaled scores, taken apart."""

    query: ValueId
    key: ValueId
    scale: float
    cap: float = 0.0
    mask: ValueId | None = None
    sinks: ValueId | None = None


def _attention(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "matmul":
        return None
    scores = _weights(builder, node.inputs[0])
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
    sinks = [] if scores.sinks is None else [scores.sinks]
    if any(builder.types[s].shape != query[1:2] for s in sinks):
        return None
    type_ = TensorType((*query[:-1], values[-1]), call.outputs[0].dtype)
    (made,) = builder.add(
        "attention",
        (scores.query, scores.key, value, *mask, *sinks),
        [type_],
        (
            ("scale", scores.scale),
            ("is_causal", causal),
            ("soft_cap", scores.cap),
            ("has_sinks", bool(sinks)),
        ),
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


def _weights(builder: GraphBuilder, value: ValueId) -> _Scores | None:
    """Take the weights of values apart: a softmax, without its first column where sinks were."""
    part = builder.made_by(_uncast(builder, value), "slice")
    weights = builder.made_by(part.inputs[0] if part else _uncast(builder, value), "softmax")
    if weights is None:
        return None
    if part is None:
        return _scores(builder, _uncast(builder, weights.inputs[0]))
    joined = builder.made_by(weights.inputs[0], "concatenate")
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


def _sinks(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    """Return one logit a head, before it was given the shape of a column of scores."""
    while (node := builder.producer(value)) is not None and node.op in ("broadcast", "reshape"):
        value = node.inputs[0]
    return value if len(builder.types[value].shape) == 1 else None


def _uncast(builder: GraphBuilder, value: ValueId) -> ValueId:
    node = builder.made_by(value, "cast")
    is_float = node is not None and builder.types[node.inputs[0]].dtype.is_float
    return node.inputs[0] if node is not None and is_float else value


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
    cap, value = _uncapped(builder, _uncast(builder, value))
    scale, value = _unscaled(builder, value)
    product = builder.made_by(value, "matmul")
    if product is None:
        return None
    query = _query(builder, product.inputs[0])
    key = _transposed_key(builder, product.inputs[1])
    if query is None or key is None:
        return None
    return _Scores(query[0], key, query[1] * scale, cap, mask)


def _uncapped(builder: GraphBuilder, value: ValueId) -> tuple[float, ValueId]:
    """Take `cap * tanh(x / cap)` apart; a cap of 0 is none."""
    cap, inner = _unscaled(builder, value)
    bent = builder.made_by(inner, "tanh")
    part = builder.made_by(bent.inputs[0], "divide") if bent else None
    if part is None or _splat(builder, part.inputs[1]) != cap:
        return 0.0, value
    return cap, part.inputs[0]


def _unscaled(builder: GraphBuilder, value: ValueId) -> tuple[float, ValueId]:
    """Take a factor that is the same everywhere away from a value."""
    product = builder.made_by(value, "multiply")
    scale = _splat(builder, product.inputs[1]) if product else None
    if product is None or scale is None:
        return 1.0, value
    return scale, product.inputs[0]


def _query(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, float] | None:
    """Return the query before its scale, as [B, H, L, D]; a reshape may stand between them."""
    shape = builder.types[value].shape
    moved = builder.made_by(value, "reshape")
    scale, query = _unscaled(builder, moved.inputs[0] if moved else value)
    if query == (moved.inputs[0] if moved else value):
        scale, query = 1.0, value
    if len(shape) == 5:
        shape = (shape[0], shape[1] * shape[2], *shape[3:])
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
