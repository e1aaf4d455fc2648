"""Attention as one op, by MLX's own function, or by the steps that it has no function for."""

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import mlx.core as mx

from kernelwright.ir.ops import Call


def replay_attention(
    call: Call, q: mx.array, k: mx.array, v: mx.array, *rest: mx.array
) -> mx.array:
    """Return the attention of a call; `rest` is masks, then sinks."""
    mask = _mask(call, q.shape[2], k.shape[2], rest[: len(rest) - call.flag("has_sinks")])
    sinks = rest[-1] if call.flag("has_sinks") else None
    scale = call.number("scale")
    if call.number("soft_cap"):
        return _capped_attention(call, q * scale, k, v, mask, sinks)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)


def _mask(
    call: Call, queries: int, keys: int, masks: Sequence[mx.array]
) -> mx.array | Literal["causal"] | None:
    """Join what hides keys into one mask, or into the word for the usual one."""
    is_causal, window = call.flag("is_causal"), call.integer("window")
    if is_causal and not window and not masks:
        return "causal"
    joined = reduce(_joined, masks) if masks else None
    if not is_causal and not window:
        return joined
    after = mx.arange(keys) - mx.arange(keys - queries, keys)[:, None]
    seen = after <= 0 if is_causal else mx.abs(after) < window
    if is_causal and window:
        seen = seen & (after > -window)
    return seen if joined is None else _joined(seen, joined)


def _joined(one: mx.array, other: mx.array) -> mx.array:
    """Join two masks, of truth values or of addends each."""
    if one.dtype == other.dtype == mx.bool_:
        return one & other
    if one.dtype == mx.bool_:
        return mx.where(one, other, -mx.inf)
    return mx.where(other, one, -mx.inf) if other.dtype == mx.bool_ else one + other


def _capped_attention(
    call: Call,
    q: mx.array,
    k: mx.array,
    v: mx.array,
    mask: mx.array | Literal["causal"] | None,
    sinks: mx.array | None,
) -> mx.array:
    """Attention with bent scores, for which MLX has no function of its own."""
    groups, cap = q.shape[1] // k.shape[1], call.number("soft_cap")
    k, v = (mx.repeat(x, groups, axis=1) if groups > 1 else x for x in (k, v))
    scores = mx.tanh((q @ k.swapaxes(-1, -2)) / cap) * cap
    if isinstance(mask, str):
        rows = mx.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
        mask = mx.arange(k.shape[2]) <= rows
    if mask is not None and mask.dtype == mx.bool_:
        scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    if sinks is not None:
        column = mx.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))
        scores = mx.concatenate([column, scores], axis=-1)
    weights = mx.softmax(scores, axis=-1, precise=True)
    return (weights[..., 1:] if sinks is not None else weights) @ v
