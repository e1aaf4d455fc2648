"""Scaled dot-product attention as one op, for plans that leave it to MLX's own kernel."""

import numpy as np

from kernelwright.ir.ops.op import Array, Call, Kind, Op, Shape


def _attention(call: Call, q: Array, k: Array, v: Array, *mask: Array) -> Array:
    """[B, H, L, D] queries against [B, H / g, S, D] keys and values, g query heads a key head."""
    groups = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    scores = call.number("scale") * (q @ np.swapaxes(keys, -1, -2))
    if call.flag("is_causal"):
        rows = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(np.arange(k.shape[2]) <= rows, scores, -np.inf)
    for one in mask:
        scores = np.where(one, scores, -np.inf) if one.dtype == np.bool_ else scores + one
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ values


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
        attributes=("scale", "is_causal"),
        shapes=_shape,
        flops_of=_flops,
    ),
)
