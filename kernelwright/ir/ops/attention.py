"""Scaled dot-product attention as one op, for plans that keep it whole."""

import numpy as np

from kernelwright.ir.ops import batching, least_read, relation_of_product
from kernelwright.ir.ops.op import Array, Call, Kind, Op, Shape

# A row that masks hide as a whole has equal weights, as in MLX.
_HIDDEN = float(np.finfo(np.float32).min)
_UNMASKED = 3
"""Queries, keys and values; what follows is a mask, or sinks."""


def _attention(call: Call, q: Array, k: Array, v: Array, *rest: Array) -> Array:
    """[B, H, L, D] queries against [B, H / g, S, D] keys and values, g query heads a key head.

    `rest` is masks of truth values or of addends, then a sink a query head, where there are any.
    Queries stand at the last L of the S positions. Keys that `is_causal` and `window` hide, those
    after the query and those that many positions away or further, are not there at all.
    """
    weights = _weights(call, q, k, *rest)
    return weights @ np.repeat(v, q.shape[1] // k.shape[1], axis=1)


def _weights(call: Call, q: Array, k: Array, *rest: Array) -> Array:
    keys = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = call.number("scale") * (q @ np.swapaxes(keys, -1, -2))
    if cap := call.number("soft_cap"):
        scores = cap * np.tanh(scores / cap)
    scores = np.where(_in_sight(call, q.shape[2], k.shape[2]), scores, -np.inf)
    for one in rest[: len(rest) - call.flag("has_sinks")]:
        scores = np.where(one, scores, _HIDDEN) if one.dtype == np.bool_ else scores + one
    if call.flag("has_sinks"):
        sinks = np.broadcast_to(rest[-1][:, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([sinks, scores], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights[..., call.flag("has_sinks") :]


def _in_sight(call: Call, queries: int, keys: int) -> Array:
    """Say which keys a query sees from where it stands."""
    after = np.arange(keys) - (np.arange(queries)[:, None] + keys - queries)
    seen = np.ones(after.shape, bool)
    if call.flag("is_causal"):
        seen &= after <= 0
    if window := call.integer("window"):
        seen &= np.abs(after) < window
    return seen


def spoiled(call: Call, q: Array, k: Array, v: Array, *rest: Array) -> Array:
    """Mark results that hang on whether values out of their query's sight are read.

    Who multiplies an infinity there by a weight of zero gets NaN; who never reads it does not,
    and has an infinity at most, from what is in sight.
    """
    groups = q.shape[1] // k.shape[1]
    values = np.repeat(v, groups, axis=1)
    seen = _in_sight(call, q.shape[2], k.shape[2]).astype(np.float64)
    is_bad = (~np.isfinite(values)).astype(np.float64)
    is_sound = np.isfinite(_weights(call, q, k, *rest)).all(axis=-1, keepdims=True)
    return is_sound & (seen @ is_bad < is_bad.sum(axis=2, keepdims=True))


def _shape(call: Call) -> tuple[Shape, ...]:
    return ((*call.inputs[0].shape[:-1], call.inputs[2].shape[-1]),)


def _flops(call: Call) -> int:
    keys, head = call.inputs[1].shape[2], call.inputs[0].shape[-1]
    return 2 * call.inputs[0].size * keys + 2 * call.outputs[0].size * keys + 8 * keys * head


def _scores(call: Call) -> int:
    return call.inputs[0].size // call.inputs[0].shape[3] * call.inputs[1].shape[2]


def _is_unmasked(call: Call) -> bool:
    is_whole = not (call.flag("is_causal") or call.integer("window"))
    return is_whole and len(call.inputs) == _UNMASKED


OPS: tuple[Op, ...] = (
    Op(
        "attention",
        Kind.CONTRACTION,
        _attention,
        attributes=("scale", "is_causal", "window", "soft_cap", "has_sinks"),
        shapes=_shape,
        flops_of=_flops,
        held_of=_scores,
        least_read=least_read.attended,
        multiplies_all=_is_unmasked,
        relation=relation_of_product.attended,
        batching=batching.attended,
        skipped=spoiled,
    ),
)
