"""Scaled dot-product attention as one op, for plans that keep it whole."""

import numpy as np

from kernelwright.ir.ops.op import Array, Call, Kind, Op, Shape

# A row that is hidden as a whole has equal weights, as in MLX.
_HIDDEN = float(np.finfo(np.float32).min)


def _attention(call: Call, q: Array, k: Array, v: Array, *rest: Array) -> Array:
    """[B, H, L, D] queries against [B, H / g, S, D] keys and values, g query heads a key head.

    `rest` is a mask of truth values or of addends, then a sink a query head, where there are any.
    """
    groups = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    scores = call.number("scale") * (q @ np.swapaxes(keys, -1, -2))
    if cap := call.number("soft_cap"):
        scores = cap * np.tanh(scores / cap)
    if call.flag("is_causal"):
        rows = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(np.arange(k.shape[2]) <= rows, scores, _HIDDEN)
    for one in rest[: len(rest) - call.flag("has_sinks")]:
        scores = np.where(one, scores, _HIDDEN) if one.dtype == np.bool_ else scores + one
    if call.flag("has_sinks"):
        sinks = np.broadcast_to(rest[-1][:, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([sinks, scores], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights[..., call.flag("has_sinks") :] @ values


def _shape(call: Call) -> tuple[Shape, ...]:
    return ((*call.inputs[0].shape[:-1], call.inputs[2].shape[-1]),)


def _flops(call: Call) -> int:
    keys, head = call.inputs[1].shape[2], call.inputs[0].shape[-1]
    return 2 * call.inputs[0].size * keys + 2 * call.outputs[0].size * keys + 8 * keys * head


OPS: tuple[Op, ...] = (
    Op(
        "attention",
        Kind.CONTRACTION,
        _attention,
        attributes=("scale", "is_causal", "soft_cap", "has_sinks"),
        shapes=_shape,
        flops_of=_flops,
    ),
)
